"""Idempotent and transactional producers: entries, checks, the producer state of a partition."""
