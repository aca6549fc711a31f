"""APIs of Kafka's tools (Kafka 4.3.1; see engine/schema/notation.py).

`python -m tests.oracle.protocol_tables` writes this module.
"""

from __future__ import annotations

MESSAGES = """
message DescribeConfigsRequest request 32 versions 1-4 flexible 4+
  resources             []DescribeConfigsResource
    resourceType        int8
    resourceName        string
    configurationKeys   []string?
  includeSynonyms       bool                       = false
  includeDocumentation  bool                       3+ = false

message DescribeConfigsResponse response 32 versions 1-4 flexible 4+
  throttleTimeMs     int32
  results            []DescribeConfigsResult
    errorCode        int16
    errorMessage     string?
    resourceType     int8
    resourceName     string
    configs          []DescribeConfigsResourceResult
      name           string
      value          string?
      readOnly       bool
      configSource   int8                             = -1 ignorable
      isSensitive    bool
      synonyms       []DescribeConfigsSynonym         ignorable
        name         string
        value        string?
        source       int8
      configType     int8                             3+ = 0 ignorable
      documentation  string?                          3+ ignorable

message DescribeLogDirsRequest request 35 versions 1-5 flexible 2+
  topics        []DescribableLogDirTopic?
    topic       string
    partitions  []int32

message DescribeLogDirsResponse response 35 versions 1-5 flexible 2+
  throttleTimeMs        int32
  errorCode             int16                       3+ ignorable
  results               []DescribeLogDirsResult
    errorCode           int16
    logDir              string
    topics              []DescribeLogDirsTopic
      name              string
      partitions        []DescribeLogDirsPartition
        partitionIndex  int32
        partitionSize   int64
        offsetLag       int64
        isFutureKey     bool
    totalBytes          int64                       4+ = -1 ignorable
    usableBytes         int64                       4+ = -1 ignorable
    isCordoned          bool                        5+ = false ignorable

message ListPartitionReassignmentsRequest request 46 versions 0 flexible 0+
  timeoutMs           int32                                = 60000
  topics              []ListPartitionReassignmentsTopics?  = null
    name              string
    partitionIndexes  []int32

message ListPartitionReassignmentsResponse response 46 versions 0 flexible 0+
  throttleTimeMs        int32
  errorCode             int16
  errorMessage          string?
  topics                []OngoingTopicReassignment
    name                string
    partitions          []OngoingPartitionReassignment
      partitionIndex    int32
      replicas          []int32
      addingReplicas    []int32
      removingReplicas  []int32

message DescribeQuorumRequest request 55 versions 0-2 flexible 0+
  topics              []TopicData
    topicName         string
    partitions        []PartitionData
      partitionIndex  int32

message DescribeQuorumResponse response 55 versions 0-2 flexible 0+
  errorCode                int16
  errorMessage             string?          2+ ignorable
  topics                   []TopicData
    topicName              string
    partitions             []PartitionData
      partitionIndex       int32
      errorCode            int16
      errorMessage         string?          2+ ignorable
      leaderId             int32
      leaderEpoch          int32
      highWatermark        int64
      currentVoters        []ReplicaState
      observers            []ReplicaState
  nodes                    []Node           2+
    nodeId                 int32            2+
    listeners              []Listener       2+
      name                 string           2+
      host                 string           2+
      port                 uint16           2+
  struct ReplicaState
    replicaId              int32
    replicaDirectoryId     uuid             2+
    logEndOffset           int64
    lastFetchTimestamp     int64            1+ = -1 ignorable
    lastCaughtUpTimestamp  int64            1+ = -1 ignorable

message DescribeClusterRequest request 60 versions 0-2 flexible 0+
  includeClusterAuthorizedOperations  bool
  endpointType                        int8  1+ = 1
  includeFencedBrokers                bool  2+

message DescribeClusterResponse response 60 versions 0-2 flexible 0+
  throttleTimeMs               int32
  errorCode                    int16
  errorMessage                 string?                  = null
  endpointType                 int8                     1+ = 1
  clusterId                    string
  controllerId                 int32                    = -1
  brokers                      []DescribeClusterBroker
    brokerId                   int32
    host                       string
    port                       int32
    rack                       string?                  = null
    isFenced                   bool                     2+
  clusterAuthorizedOperations  int32                    = -2147483648

message DescribeTopicPartitionsRequest request 75 versions 0 flexible 0+
  topics                  []TopicRequest
    name                  string
  responsePartitionLimit  int32           = 2000
  cursor                  Cursor?         = null
    topicName             string
    partitionIndex        int32

message DescribeTopicPartitionsResponse response 75 versions 0 flexible 0+
  throttleTimeMs               int32                                       ignorable
  topics                       []DescribeTopicPartitionsResponseTopic
    errorCode                  int16
    name                       string?
    topicId                    uuid                                        ignorable
    isInternal                 bool                                        = false ignorable
    partitions                 []DescribeTopicPartitionsResponsePartition
      errorCode                int16
      partitionIndex           int32
      leaderId                 int32
      leaderEpoch              int32                                       = -1 ignorable
      replicaNodes             []int32
      isrNodes                 []int32
      eligibleLeaderReplicas   []int32?                                    = null
      lastKnownElr             []int32?                                    = null
      offlineReplicas          []int32                                     ignorable
    topicAuthorizedOperations  int32                                       = -2147483648
  nextCursor                   Cursor?                                     = null
    topicName                  string
    partitionIndex             int32
"""
