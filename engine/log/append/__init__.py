"""Appends: validation, offsets, many batches at a time."""
