"""Commits of segments that other processes wrote: staged in the log dir, published all or nothing, undone on request."""
