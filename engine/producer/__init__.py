"""The path of a record through Kafka's producer: partitions, batches, sequences, requests. Clock and random numbers: given."""
