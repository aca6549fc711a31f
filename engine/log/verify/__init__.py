"""Every file of a partition against its log, read-only; rebuilding what is broken."""
