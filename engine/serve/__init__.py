"""A Kafka endpoint over log dirs, for reading: every client can read them without a broker."""
