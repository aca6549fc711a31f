"""Leader epochs: the cache of a log, the epochs in its batches, and their check."""
