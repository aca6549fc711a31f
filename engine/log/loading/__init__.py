"""Opening a log: the start-up path of a broker."""
