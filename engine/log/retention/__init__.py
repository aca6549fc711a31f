"""Which segments are too old or exceed the size limit, why, and when they can be deleted."""
