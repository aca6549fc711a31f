"""Logs of Kafka 0.7: entries, files, segments; appending, reading, recovery and retention of a log."""
