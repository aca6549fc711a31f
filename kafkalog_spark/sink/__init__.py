"""Rows as partition directories: staged by tasks, published by one commit."""
