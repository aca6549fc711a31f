"""Index files: offset, time and transaction index.

A view is read as a whole, checked, and searched in place. An open index represents its file as a broker's does: its entries
are read when they are needed, and written back in runs (`backing`).
"""
