"""Which segments are old or too many, why, and when."""
