"""Walks over the batches of one segment file: searching, recovery, the rows of producers."""
