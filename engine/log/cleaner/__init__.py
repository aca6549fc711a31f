"""Compaction: what is due, the last offset of each key, segments written anew."""
