"""Dump files as kafka-dump-log does and beyond: as text or JSON, selections of records, problems in the files."""
