"""The log of a partition: UnifiedLog over LocalLog."""
