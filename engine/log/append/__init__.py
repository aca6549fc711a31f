"""From records to batches in the log: validation, offsets, many batches at a time."""
