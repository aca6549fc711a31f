"""Leader epochs: the cache of a log, the runs of epochs in its batches, and their check."""
