"""Index files: offset, time and transaction index. Small, so read whole, checked, and searched in place."""
