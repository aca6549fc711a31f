"""Directories as tables: options, which partitions and offsets, splits, rows of each level; what a stream reads next."""
