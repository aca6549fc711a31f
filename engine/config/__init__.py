"""Topic settings (topic.py); broker settings and the .properties format (server.py)."""
