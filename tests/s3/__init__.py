"""Commands on a real S3 server: versitygw, built by `make object-server` (Go)."""
