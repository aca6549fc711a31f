"""Topic settings (topic.py), broker settings (server.py), and the .properties format."""
