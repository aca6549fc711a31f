"""kafkalog's engine: reads, checks and repairs Kafka's on-disk log directories. See docs/architecture.md.

Programs use the package `kafkalog`, whose names are public.
"""
