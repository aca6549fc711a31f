"""The log of a partition: UnifiedLog over LocalLog, and its leader epochs."""
