"""The storage engine: segments and what makes a log of them, recovery, appending, reading, retention, compaction."""
