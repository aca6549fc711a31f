"""Mutants of real files through the whole dump. `python -m tests.fuzz --help`, or `make fuzz`."""
