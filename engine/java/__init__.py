"""What Java does that shows in Kafka's bytes and text: strings, doubles, the order of hash maps."""
