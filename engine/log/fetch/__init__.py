"""Reads: by offset and isolation, beside a live broker, as a consumer."""
