"""Logs of Kafka 0.7, which `engine.discovery.paths` recognises: files, segments; appending, reading, recovery, retention."""
