"""Log dirs: what lies in them, their checkpoints and locks, the logs they hold."""
