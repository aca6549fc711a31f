"""Records of `__share_group_state` (Kafka 4.3.1; see notation.py)."""

MESSAGES = """
message ShareSnapshotKey key 0 versions 0
  groupId    string
  topicId    uuid
  partition  int32

message ShareSnapshotValue value 0 versions 0 flexible 0+
  snapshotEpoch          int32
  stateEpoch             int32
  leaderEpoch            int32
  startOffset            int64
  deliveryCompleteCount  int32  tag 0 = -1
  createTimestamp        int64
  writeTimestamp         int64
  stateBatches           []StateBatch
    firstOffset          int64
    lastOffset           int64
    deliveryState        int8
    deliveryCount        int16

message ShareUpdateKey key 1 versions 0
  groupId    string
  topicId    uuid
  partition  int32

message ShareUpdateValue value 1 versions 0 flexible 0+
  snapshotEpoch          int32
  leaderEpoch            int32
  startOffset            int64
  deliveryCompleteCount  int32  tag 0 = -1
  stateBatches           []StateBatch
    firstOffset          int64
    lastOffset           int64
    deliveryState        int8
    deliveryCount        int16
"""
