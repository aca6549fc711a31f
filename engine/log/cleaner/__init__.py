"""Compaction: which logs are due, the last offset of each key, rewriting segments."""
