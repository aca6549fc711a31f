"""Reads: by offset and isolation level, beside a running broker, as a consumer."""
