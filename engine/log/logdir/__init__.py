"""Log dirs: their content, checkpoints and locks, and opening their logs."""
