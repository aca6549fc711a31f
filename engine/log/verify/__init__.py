"""Check every file of a partition against its log, read-only; rebuild damaged files beside a sound log."""
