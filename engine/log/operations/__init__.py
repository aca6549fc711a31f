"""What a command does to logs: lock, open, work, close, report; recovery of whole log dirs."""
