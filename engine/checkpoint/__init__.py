"""Files beside the logs: checkpoints and identities, small and read whole up to a bound; producer snapshots, read in pieces."""
