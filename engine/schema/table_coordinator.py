"""Records of the coordinators' topics: `__consumer_offsets` (offsets, groups of all kinds), `__transaction_state`,
`__share_group_state` (Kafka 4.3.1; see notation.py).
"""

from __future__ import annotations

GROUPS = """
message LegacyOffsetCommitKey key 0 versions 0
  group      string
  topic      string
  partition  int32

message LegacyOffsetCommitValue value 0 versions 0
  offset           int64
  metadata         string
  commitTimestamp  int64

message OffsetCommitKey key 1 versions 0
  group      string
  topic      string
  partition  int32

message OffsetCommitValue value 1 versions 0-4 flexible 4+
  offset           int64
  leaderEpoch      int32  3+ = -1 ignorable
  metadata         string
  commitTimestamp  int64
  expireTimestamp  int64  1 = -1 ignorable
  topicId          uuid   4+ tag 0 ignorable

message GroupMetadataKey key 2 versions 0
  group  string

message GroupMetadataValue value 2 versions 0-4 flexible 4+
  protocolType           string
  generation             int32
  protocol               string?
  leader                 string?
  currentStateTimestamp  int64    2+ = -1 ignorable
  members                []MemberMetadata
  struct MemberMetadata
    memberId             string
    groupInstanceId      string?  3+ = null ignorable
    clientId             string
    clientHost           string
    rebalanceTimeout     int32    1+ = -1 ignorable
    sessionTimeout       int32
    subscription         bytes    holds ConsumerProtocolSubscription
    assignment           bytes    holds ConsumerProtocolAssignment

message ConsumerGroupMetadataKey key 3 versions 0
  groupId  string

message ConsumerGroupMetadataValue value 3 versions 0 flexible 0+
  epoch         int32
  metadataHash  int64  tag 0 = 0

message ConsumerGroupPartitionMetadataKey key 4 versions 0
  groupId  string

message ConsumerGroupPartitionMetadataValue value 4 versions 0 flexible 0+
  topics               []TopicMetadata
    topicId            uuid
    topicName          string
    numPartitions      int32
    partitionMetadata  []PartitionMetadata
      partition        int32
      racks            []string

message ConsumerGroupMemberMetadataKey key 5 versions 0
  groupId   string
  memberId  string

message ConsumerGroupMemberMetadataValue value 5 versions 0 flexible 0+
  instanceId             string?
  rackId                 string?
  clientId               string
  clientHost             string
  subscribedTopicNames   []string
  subscribedTopicRegex   string?
  rebalanceTimeoutMs     int32                   = -1
  serverAssignor         string?
  classicMemberMetadata  ClassicMemberMetadata?  tag 0
    sessionTimeoutMs     int32
    supportedProtocols   []ClassicProtocol
      name               string
      metadata           bytes

message ConsumerGroupTargetAssignmentMetadataKey key 6 versions 0
  groupId  string

message ConsumerGroupTargetAssignmentMetadataValue value 6 versions 0 flexible 0+
  assignmentEpoch      int32
  assignmentTimestamp  int64  tag 0 = 0 ignorable

message ConsumerGroupTargetAssignmentMemberKey key 7 versions 0
  groupId   string
  memberId  string

message ConsumerGroupTargetAssignmentMemberValue value 7 versions 0 flexible 0+
  topicPartitions  []TopicPartition
    topicId        uuid
    partitions     []int32

message ConsumerGroupCurrentMemberAssignmentKey key 8 versions 0
  groupId   string
  memberId  string

message ConsumerGroupCurrentMemberAssignmentValue value 8 versions 0 flexible 0+
  memberEpoch                  int32
  previousMemberEpoch          int32
  state                        int8
  assignedPartitions           []TopicPartitions
  partitionsPendingRevocation  []TopicPartitions
  struct TopicPartitions
    topicId                    uuid
    partitions                 []int32
    assignmentEpochs           []int32?  tag 0

message ShareGroupMemberMetadataKey key 10 versions 0
  groupId   string
  memberId  string

message ShareGroupMemberMetadataValue value 10 versions 0 flexible 0+
  rackId                string?
  clientId              string
  clientHost            string
  subscribedTopicNames  []string

message ShareGroupMetadataKey key 11 versions 0
  groupId  string

message ShareGroupMetadataValue value 11 versions 0 flexible 0+
  epoch         int32
  metadataHash  int64

message ShareGroupTargetAssignmentMetadataKey key 12 versions 0
  groupId  string

message ShareGroupTargetAssignmentMetadataValue value 12 versions 0 flexible 0+
  assignmentEpoch      int32
  assignmentTimestamp  int64  tag 0 = 0 ignorable

message ShareGroupTargetAssignmentMemberKey key 13 versions 0
  groupId   string
  memberId  string

message ShareGroupTargetAssignmentMemberValue value 13 versions 0 flexible 0+
  topicPartitions  []TopicPartition
    topicId        uuid
    partitions     []int32

message ShareGroupCurrentMemberAssignmentKey key 14 versions 0
  groupId   string
  memberId  string

message ShareGroupCurrentMemberAssignmentValue value 14 versions 0 flexible 0+
  memberEpoch          int32
  previousMemberEpoch  int32
  state                int8
  assignedPartitions   []TopicPartitions
  struct TopicPartitions
    topicId            uuid
    partitions         []int32

message ShareGroupStatePartitionMetadataKey key 15 versions 0
  groupId  string

message ShareGroupStatePartitionMetadataValue value 15 versions 0 flexible 0+
  initializingTopics  []TopicPartitionsInfo
  initializedTopics   []TopicPartitionsInfo
  deletingTopics      []TopicInfo
  struct TopicPartitionsInfo
    topicId           uuid
    topicName         string
    partitions        []int32
  struct TopicInfo
    topicId           uuid
    topicName         string

message ConsumerGroupRegularExpressionKey key 16 versions 0
  groupId            string
  regularExpression  string

message ConsumerGroupRegularExpressionValue value 16 versions 0 flexible 0+
  topics     []string
  version    int64
  timestamp  int64
"""


CONSUMER_PROTOCOL = """
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

STREAMS_GROUPS = """
message StreamsGroupMetadataKey key 17 versions 0
  groupId  string

message StreamsGroupMetadataValue value 17 versions 0 flexible 0+
  epoch                   int32
  metadataHash            int64
  validatedTopologyEpoch  int32                    tag 0 = -1
  lastAssignmentConfigs   []LastAssignmentConfig?  tag 1
  struct LastAssignmentConfig
    key                   string
    value                 string

message StreamsGroupMemberMetadataKey key 19 versions 0
  groupId   string
  memberId  string

message StreamsGroupMemberMetadataValue value 19 versions 0 flexible 0+
  instanceId          string?
  rackId              string?
  clientId            string
  clientHost          string
  rebalanceTimeoutMs  int32      = -1
  topologyEpoch       int32
  processId           string
  userEndpoint        Endpoint?  = null
  clientTags          []KeyValue
  struct Endpoint
    host              string
    port              uint16
  struct KeyValue
    key               string
    value             string

message StreamsGroupTargetAssignmentMetadataKey key 20 versions 0
  groupId  string

message StreamsGroupTargetAssignmentMetadataValue value 20 versions 0 flexible 0+
  assignmentEpoch      int32
  assignmentTimestamp  int64  tag 0 = 0 ignorable

message StreamsGroupTargetAssignmentMemberKey key 21 versions 0
  groupId   string
  memberId  string

message StreamsGroupTargetAssignmentMemberValue value 21 versions 0 flexible 0+
  activeTasks      []TaskIds
  standbyTasks     []TaskIds
  warmupTasks      []TaskIds
  struct TaskIds
    subtopologyId  string
    partitions     []int32

message StreamsGroupCurrentMemberAssignmentKey key 22 versions 0
  groupId   string
  memberId  string

message StreamsGroupCurrentMemberAssignmentValue value 22 versions 0 flexible 0+
  memberEpoch                    int32
  previousMemberEpoch            int32
  state                          int8
  activeTasks                    []TaskIds
  standbyTasks                   []TaskIds
  warmupTasks                    []TaskIds
  activeTasksPendingRevocation   []TaskIds
  standbyTasksPendingRevocation  []TaskIds
  warmupTasksPendingRevocation   []TaskIds
  struct TaskIds
    subtopologyId                string
    partitions                   []int32
    assignmentEpochs             []int32?  tag 0

message StreamsGroupTopologyKey key 23 versions 0
  groupId  string

message StreamsGroupTopologyValue value 23 versions 0 flexible 0+
  epoch                        int32
  subtopologies                []Subtopology
    subtopologyId              string
    sourceTopics               []string
    sourceTopicRegex           []string
    stateChangelogTopics       []TopicInfo
    repartitionSinkTopics      []string
    repartitionSourceTopics    []TopicInfo
    copartitionGroups          []CopartitionGroup
      sourceTopics             []int16
      sourceTopicRegex         []int16
      repartitionSourceTopics  []int16
  struct TopicConfig
    key                        string
    value                      string
  struct TopicInfo
    name                       string
    partitions                 int32
    replicationFactor          int16
    topicConfigs               []TopicConfig
"""


SHARE_GROUP_STATE = """
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
