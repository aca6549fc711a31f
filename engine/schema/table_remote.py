"""Records of `__remote_log_metadata` (Kafka 4.3.1; see notation.py)."""

from __future__ import annotations

MESSAGES = """
message RemoteLogSegmentMetadataRecord record 0 versions 0 flexible 0+
  remoteLogSegmentId     RemoteLogSegmentIdEntry
    topicIdPartition     TopicIdPartitionEntry
      name               string
      id                 uuid
      partition          int32
    id                   uuid
  startOffset            int64
  endOffset              int64
  brokerId               int32
  maxTimestampMs         int64
  eventTimestampMs       int64
  segmentLeaderEpochs    []SegmentLeaderEpochEntry
    leaderEpoch          int32
    offset               int64
  segmentSizeInBytes     int32
  customMetadata         bytes?  = null
  remoteLogSegmentState  int8
  txnIndexEmpty          bool    tag 0

message RemoteLogSegmentMetadataUpdateRecord record 1 versions 0 flexible 0+
  remoteLogSegmentId     RemoteLogSegmentIdEntry
    topicIdPartition     TopicIdPartitionEntry
      name               string
      id                 uuid
      partition          int32
    id                   uuid
  brokerId               int32
  eventTimestampMs       int64
  customMetadata         bytes?  = null
  remoteLogSegmentState  int8

message RemotePartitionDeleteMetadataRecord record 2 versions 0 flexible 0+
  topicIdPartition            TopicIdPartitionEntry
    name                      string
    id                        uuid
    partition                 int32
  brokerId                    int32
  eventTimestampMs            int64
  remotePartitionDeleteState  int8

message RemoteLogSegmentMetadataSnapshotRecord record 3 versions 0 flexible 0+
  segmentId              uuid
  startOffset            int64
  endOffset              int64
  brokerId               int32
  maxTimestampMs         int64
  eventTimestampMs       int64
  segmentLeaderEpochs    []SegmentLeaderEpochEntry
    leaderEpoch          int32
    offset               int64
  segmentSizeInBytes     int32
  customMetadata         bytes?  = null
  remoteLogSegmentState  int8
  txnIndexEmpty          bool    tag 0
"""


TRANSACTION_STATE = """
message TransactionLogKey key 0 versions 0
  transactionalId  string

message TransactionLogValue value 0 versions 0-1 flexible 1+
  producerId                        int64
  previousProducerId                int64  1+ tag 0 = -1
  nextProducerId                    int64  1+ tag 1 = -1
  producerEpoch                     int16
  nextProducerEpoch                 int16  1+ tag 3 = -1
  transactionTimeoutMs              int32
  transactionStatus                 int8
  transactionPartitions             []PartitionsSchema?
    topic                           string
    partitionIds                    []int32
  transactionLastUpdateTimestampMs  int64
  transactionStartTimestampMs       int64
  clientTransactionVersion          int16  1+ tag 2 = 0
"""
