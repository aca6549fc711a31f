"""What a command does to logs: lock, open, work, close, report; and the recovery of whole log dirs."""
