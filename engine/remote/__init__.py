"""Kafka's tiered storage (KIP-405): what `__remote_log_metadata` says of remote segments, and the objects that hold them."""
