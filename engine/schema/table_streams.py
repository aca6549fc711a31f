"""Records of `__consumer_offsets`: streams groups (Kafka 4.3.1; see notation.py)."""

from __future__ import annotations

MESSAGES = """
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
