"""Logs of Kafka 0.7: append, read, flush, recover, retain."""
