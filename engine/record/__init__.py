"""Batches and messages of every format: read in windows, decompressed and decoded; and encoded from records."""
