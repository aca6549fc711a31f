"""What idempotent and transactional producers have written: entries, checks, the state of a partition."""
