"""A Kafka endpoint over log dirs: clients read them without a broker; for tests, producers write to them."""
