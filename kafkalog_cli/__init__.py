"""The program `kafkalog`."""
