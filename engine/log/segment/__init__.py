"""Segments: one file of batches with its indexes; their order in a partition; what a swap leaves behind."""
