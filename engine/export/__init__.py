"""Records of partitions as files for other programs: JSON lines, CSV, Arrow, Parquet. Only the last two need pyarrow."""
