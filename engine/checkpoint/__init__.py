"""Small files beside the logs: checkpoints, identities, producer snapshots. Read whole, bounded in size and count."""
