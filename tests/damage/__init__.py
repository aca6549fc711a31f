"""Damaged partitions and log dirs, compared with what a real broker did with them by laws (see laws.py).

Each damage of `tests/data/damage.tar.xz` is one that disks, copies, backups or operators really cause: a block of zeros, swapped
batches, a segment of another partition, half a swap file, an older backup. truth.json has what a broker of Kafka 4.3.1 did
with it at an unclean start, at one without recovery points, and at a clean one.
"""
