"""Settings: of topics (topic.py), of a broker (server.py), and the .properties format."""
