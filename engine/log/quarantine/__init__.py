"""The quarantine keeps removed bytes: a file system that copies them, the manifest, and restoring."""
