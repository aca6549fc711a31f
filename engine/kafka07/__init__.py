"""Logs of Kafka 0.7: entries, files, segments, and a log to append to, read, recover and retain."""
