"""Index files: offset, time and transaction index.

For reading, one is read whole, checked, and searched in place. An open one represents its file as a broker's does: its
entries are read when they are needed, and written back in runs (`backing`).
"""
