"""Records of `__consumer_offsets`: offsets, classic, consumer and share groups (Kafka 4.3.1; see notation.py)."""

from __future__ import annotations

MESSAGES = """
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
