"""The metadata of a cluster: the records of its metadata log, their replay, what differs, and its verification.

Mirrors org.apache.kafka.image.
"""
