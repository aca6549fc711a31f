"""What classic members of a group hand to each other inside GroupMetadataValue (Kafka 4.3.1; see notation.py)."""

MESSAGES = """
message ConsumerProtocolSubscription versions 0-3
  topics           []string
  userData         bytes?            = null
  ownedPartitions  []TopicPartition  1+ ignorable
    topic          string
    partitions     []int32
  generationId     int32             2+ = -1 ignorable
  rackId           string?           3+ = null ignorable

message ConsumerProtocolAssignment versions 0-3
  assignedPartitions  []TopicPartition
    topic             string
    partitions        []int32
  userData            bytes?  = null
"""
