"""What kafka-dump-log prints and more: files as text or JSON, selections of records, reports of what does not fit."""
