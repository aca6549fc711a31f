"""Small files beside the logs: checkpoints and identity files, read whole up to a limit; producer snapshots, read in pieces."""
