"""Commands on a real S3 server: versitygw, built by `make s3-server` (Go)."""
