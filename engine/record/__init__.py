"""Batches and messages of every format: windows of a log, decoded and inflated; and the way back, from records to bytes."""
