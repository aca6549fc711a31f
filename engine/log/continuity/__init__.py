"""Gaps in the offsets of a log: whether the cleaner made them or records were lost."""
