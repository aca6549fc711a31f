"""Opening a log as a starting broker does."""
