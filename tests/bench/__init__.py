"""`make bench`: kafkalog against real Kafka, the same files in the same run. See docs/benchmarks.md."""
