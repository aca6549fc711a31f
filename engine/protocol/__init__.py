"""Kafka's protocol: requests and responses as values, from bytes and back. `frames` and `messages` are the public interface."""
