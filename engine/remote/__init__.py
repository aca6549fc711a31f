"""Kafka's tiered storage (KIP-405): the metadata of remote segments in `__remote_log_metadata`, and their objects."""
