"""The path of a record through Kafka's producer, without I/O: partitions, batches, sequences, requests; clock and random numbers are handed in."""
