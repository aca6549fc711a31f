"""Jobs over many partitions: splits → the engine → DataFrames of results. Each is also a `kafkalog spark` command."""
