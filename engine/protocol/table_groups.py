"""APIs of groups (Kafka 4.3.1; see engine/schema/notation.py).

`python -m tests.oracle.protocol_tables` writes this module.
"""

from __future__ import annotations

MESSAGES = """
message OffsetCommitRequest request 8 versions 2-10 flexible 8+
  groupId                    string
  generationIdOrMemberEpoch  int32                           = -1 ignorable
  memberId                   string                          ignorable
  groupInstanceId            string?                         7+ = null
  retentionTimeMs            int64                           2-4 = -1 ignorable
  topics                     []OffsetCommitRequestTopic
    name                     string                          2-9 ignorable
    topicId                  uuid                            10+ ignorable
    partitions               []OffsetCommitRequestPartition
      partitionIndex         int32
      committedOffset        int64
      committedLeaderEpoch   int32                           6+ = -1 ignorable
      committedMetadata      string?

message OffsetCommitResponse response 8 versions 2-10 flexible 8+
  throttleTimeMs      int32                            3+ ignorable
  topics              []OffsetCommitResponseTopic
    name              string                           2-9 ignorable
    topicId           uuid                             10+ ignorable
    partitions        []OffsetCommitResponsePartition
      partitionIndex  int32
      errorCode       int16

message OffsetFetchRequest request 9 versions 1-10 flexible 6+
  groupId               string                         1-7
  topics                []OffsetFetchRequestTopic?2-7  1-7
    name                string                         1-7
    partitionIndexes    []int32                        1-7
  groups                []OffsetFetchRequestGroup      8+
    groupId             string                         8+
    memberId            string?                        9+ = null ignorable
    memberEpoch         int32                          9+ = -1 ignorable
    topics              []OffsetFetchRequestTopics?    8+
      name              string                         8-9 ignorable
      topicId           uuid                           10+ ignorable
      partitionIndexes  []int32                        8+
  requireStable         bool                           7+ = false

message OffsetFetchResponse response 9 versions 1-10 flexible 6+
  throttleTimeMs              int32                            3+ ignorable
  topics                      []OffsetFetchResponseTopic       1-7
    name                      string                           1-7
    partitions                []OffsetFetchResponsePartition   1-7
      partitionIndex          int32                            1-7
      committedOffset         int64                            1-7
      committedLeaderEpoch    int32                            5-7 = -1 ignorable
      metadata                string?                          1-7
      errorCode               int16                            1-7
  errorCode                   int16                            2-7 = 0 ignorable
  groups                      []OffsetFetchResponseGroup       8+
    groupId                   string                           8+
    topics                    []OffsetFetchResponseTopics      8+
      name                    string                           8-9 ignorable
      topicId                 uuid                             10+ ignorable
      partitions              []OffsetFetchResponsePartitions  8+
        partitionIndex        int32                            8+
        committedOffset       int64                            8+
        committedLeaderEpoch  int32                            8+ = -1 ignorable
        metadata              string?                          8+
        errorCode             int16                            8+
    errorCode                 int16                            8+ = 0

message FindCoordinatorRequest request 10 versions 0-6 flexible 3+
  key              string    0-3
  keyType          int8      1+ = 0
  coordinatorKeys  []string  4+

message FindCoordinatorResponse response 10 versions 0-6 flexible 3+
  throttleTimeMs  int32          1+ ignorable
  errorCode       int16          0-3
  errorMessage    string?        1-3 ignorable
  nodeId          int32          0-3
  host            string         0-3
  port            int32          0-3
  coordinators    []Coordinator  4+
    key           string         4+
    nodeId        int32          4+
    host          string         4+
    port          int32          4+
    errorCode     int16          4+
    errorMessage  string?        4+ ignorable

message JoinGroupRequest request 11 versions 0-9 flexible 6+
  groupId             string
  sessionTimeoutMs    int32
  rebalanceTimeoutMs  int32                       1+ = -1 ignorable
  memberId            string
  groupInstanceId     string?                     5+ = null
  protocolType        string
  protocols           []JoinGroupRequestProtocol
    name              string
    metadata          bytes
  reason              string?                     8+ = null ignorable

message JoinGroupResponse response 11 versions 0-9 flexible 6+
  throttleTimeMs     int32                      2+ ignorable
  errorCode          int16
  generationId       int32                      = -1
  protocolType       string?                    7+ = null ignorable
  protocolName       string?7+
  leader             string
  skipAssignment     bool                       9+ = false
  memberId           string
  members            []JoinGroupResponseMember
    memberId         string
    groupInstanceId  string?                    5+ = null ignorable
    metadata         bytes

message HeartbeatRequest request 12 versions 0-4 flexible 4+
  groupId          string
  generationId     int32
  memberId         string
  groupInstanceId  string?  3+ = null

message HeartbeatResponse response 12 versions 0-4 flexible 4+
  throttleTimeMs  int32  1+ ignorable
  errorCode       int16

message LeaveGroupRequest request 13 versions 0-5 flexible 4+
  groupId            string
  memberId           string            0-2
  members            []MemberIdentity  3+
    memberId         string            3+
    groupInstanceId  string?           3+ = null
    reason           string?           5+ = null ignorable

message LeaveGroupResponse response 13 versions 0-5 flexible 4+
  throttleTimeMs     int32             1+ ignorable
  errorCode          int16
  members            []MemberResponse  3+
    memberId         string            3+
    groupInstanceId  string?           3+
    errorCode        int16             3+

message SyncGroupRequest request 14 versions 0-5 flexible 4+
  groupId          string
  generationId     int32
  memberId         string
  groupInstanceId  string?                       3+ = null
  protocolType     string?                       5+ = null ignorable
  protocolName     string?                       5+ = null ignorable
  assignments      []SyncGroupRequestAssignment
    memberId       string
    assignment     bytes

message SyncGroupResponse response 14 versions 0-5 flexible 4+
  throttleTimeMs  int32    1+ ignorable
  errorCode       int16
  protocolType    string?  5+ = null ignorable
  protocolName    string?  5+ = null ignorable
  assignment      bytes

message DescribeGroupsRequest request 15 versions 0-6 flexible 5+
  groups                       []string
  includeAuthorizedOperations  bool      3+

message DescribeGroupsResponse response 15 versions 0-6 flexible 5+
  throttleTimeMs          int32                   1+ ignorable
  groups                  []DescribedGroup
    errorCode             int16
    errorMessage          string?                 6+ = null
    groupId               string
    groupState            string
    protocolType          string
    protocolData          string
    members               []DescribedGroupMember
      memberId            string
      groupInstanceId     string?                 4+ = null ignorable
      clientId            string
      clientHost          string
      memberMetadata      bytes
      memberAssignment    bytes
    authorizedOperations  int32                   3+ = -2147483648

message ListGroupsRequest request 16 versions 0-5 flexible 3+
  statesFilter  []string  4+
  typesFilter   []string  5+

message ListGroupsResponse response 16 versions 0-5 flexible 3+
  throttleTimeMs  int32          1+ ignorable
  errorCode       int16
  groups          []ListedGroup
    groupId       string
    protocolType  string
    groupState    string         4+ ignorable
    groupType     string         5+ ignorable

message ConsumerGroupHeartbeatRequest request 68 versions 0-1 flexible 0+
  groupId               string
  memberId              string
  memberEpoch           int32
  instanceId            string?             = null
  rackId                string?             = null
  rebalanceTimeoutMs    int32               = -1
  subscribedTopicNames  []string?           = null
  subscribedTopicRegex  string?             1+ = null
  serverAssignor        string?             = null
  topicPartitions       []TopicPartitions?  = null
    topicId             uuid
    partitions          []int32

message ConsumerGroupHeartbeatResponse response 68 versions 0-1 flexible 0+
  throttleTimeMs       int32
  errorCode            int16
  errorMessage         string?            = null
  memberId             string?            = null
  memberEpoch          int32
  heartbeatIntervalMs  int32
  assignment           Assignment?        = null
    topicPartitions    []TopicPartitions
  struct TopicPartitions
    topicId            uuid
    partitions         []int32

message ConsumerGroupDescribeRequest request 69 versions 0-1 flexible 0+
  groupIds                     []string
  includeAuthorizedOperations  bool

message ConsumerGroupDescribeResponse response 69 versions 0-1 flexible 0+
  throttleTimeMs            int32
  groups                    []DescribedGroup
    errorCode               int16
    errorMessage            string?            = null
    groupId                 string
    groupState              string
    groupEpoch              int32
    assignmentEpoch         int32
    assignorName            string
    members                 []Member
      memberId              string
      instanceId            string?            = null
      rackId                string?            = null
      memberEpoch           int32
      clientId              string
      clientHost            string
      subscribedTopicNames  []string
      subscribedTopicRegex  string?            = null
      assignment            Assignment
      targetAssignment      Assignment
      memberType            int8               1+ = -1 ignorable
    authorizedOperations    int32              = -2147483648
  struct TopicPartitions
    topicId                 uuid
    topicName               string
    partitions              []int32
  struct Assignment
    topicPartitions         []TopicPartitions
"""
