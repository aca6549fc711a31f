"""Compression: one module per codec, with bounded output; codecs.py chooses among them."""
