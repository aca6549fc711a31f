"""Compaction: what is due, the last offset of each key, rewriting segments."""
