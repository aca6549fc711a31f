"""Segments: a file of batches with its indexes, the segments of a partition in order, replacement and deletion."""
