"""Compression: one module per codec, with bounded output; codecs.py selects the module."""
