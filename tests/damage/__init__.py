"""Damaged partitions and log dirs beside what a real broker did with them, judged by laws (see laws.py).

Each damage of `tests/data/damage.tar.xz` is what disks, copies, backups and operators really do: a block of zeros, swapped
batches, a segment of another partition, half a swap file, an older backup. truth.json says what a broker of Kafka 4.3.1 did
with it at an unclean start, at one without recovery points, and at a clean one.
"""
