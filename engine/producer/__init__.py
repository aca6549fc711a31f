"""The path of a record through Kafka's producer: partitions, batches, sequences, requests. The caller gives the time."""
