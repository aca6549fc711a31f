"""kafkalog's engine: Kafka's on-disk log directories, read and kept in order. See docs/architecture.md."""
