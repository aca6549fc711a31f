"""Index files: offset, time and transaction index.

To be looked at, one is read whole, checked, and searched in place. An open one stands for its file as a broker's does: its
entries are read when they are needed, and written back in runs (`backing`).
"""
