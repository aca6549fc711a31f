"""Replicas of a partition compared: where their histories fork, what only one of them has, and what differs without a fork."""
