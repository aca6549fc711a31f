"""Gaps in the offsets of a log: made by the cleaner, or lost records."""
