"""Headers; APIs of producers and consumers that are not about groups (Kafka 4.3.1; see engine/schema/notation.py).

`python -m tests.oracle.protocol_tables` writes this module.
"""

from __future__ import annotations

MESSAGES = """
message RequestHeader versions 1-2 flexible 2+
  requestApiKey      int16
  requestApiVersion  int16
  correlationId      int32
  clientId           string?  flexible none

message ResponseHeader versions 0-1 flexible 1+
  correlationId  int32

message ProduceRequest request 0 versions 3-13 flexible 9+
  transactionalId  string?                 = null
  acks             int16
  timeoutMs        int32
  topicData        []TopicProduceData
    name           string                  3-12 ignorable
    topicId        uuid                    13+ ignorable
    partitionData  []PartitionProduceData
      index        int32
      records      records?

message ProduceResponse response 0 versions 3-13 flexible 9+
  responses                     []TopicProduceResponse
    name                        string                       3-12 ignorable
    topicId                     uuid                         13+ ignorable
    partitionResponses          []PartitionProduceResponse
      index                     int32
      errorCode                 int16
      baseOffset                int64
      logAppendTimeMs           int64                        = -1 ignorable
      logStartOffset            int64                        5+ = -1 ignorable
      recordErrors              []BatchIndexAndErrorMessage  8+ ignorable
        batchIndex              int32                        8+
        batchIndexErrorMessage  string?                      8+ = null
      errorMessage              string?                      8+ = null ignorable
      currentLeader             LeaderIdAndEpoch             10+ tag 0
        leaderId                int32                        10+ = -1
        leaderEpoch             int32                        10+ = -1
  throttleTimeMs                int32                        = 0 ignorable
  nodeEndpoints                 []NodeEndpoint               10+ tag 0
    nodeId                      int32                        10+
    host                        string                       10+
    port                        int32                        10+
    rack                        string?                      10+ = null

message FetchRequest request 1 versions 4-18 flexible 12+
  clusterId               string?           12+ tag 0 = null ignorable
  replicaId               int32             4-14 = -1
  replicaState            ReplicaState      15+ tag 1
    replicaId             int32             15+ = -1
    replicaEpoch          int64             15+ = -1
  maxWaitMs               int32
  minBytes                int32
  maxBytes                int32             = 2147483647 ignorable
  isolationLevel          int8              = 0 ignorable
  sessionId               int32             7+ = 0 ignorable
  sessionEpoch            int32             7+ = -1 ignorable
  topics                  []FetchTopic
    topic                 string            4-12 ignorable
    topicId               uuid              13+ ignorable
    partitions            []FetchPartition
      partition           int32
      currentLeaderEpoch  int32             9+ = -1 ignorable
      fetchOffset         int64
      lastFetchedEpoch    int32             12+ = -1
      logStartOffset      int64             5+ = -1 ignorable
      partitionMaxBytes   int32
      replicaDirectoryId  uuid              17+ tag 0 ignorable
      highWatermark       int64             18+ tag 1 = 9223372036854775807 ignorable
  forgottenTopicsData     []ForgottenTopic  7+
    topic                 string            7-12 ignorable
    topicId               uuid              13+ ignorable
    partitions            []int32           7+
  rackId                  string            11+ ignorable

message FetchResponse response 1 versions 4-18 flexible 12+
  throttleTimeMs            int32                     ignorable
  errorCode                 int16                     7+ ignorable
  sessionId                 int32                     7+ = 0
  responses                 []FetchableTopicResponse
    topic                   string                    4-12 ignorable
    topicId                 uuid                      13+ ignorable
    partitions              []PartitionData
      partitionIndex        int32
      errorCode             int16
      highWatermark         int64
      lastStableOffset      int64                     = -1 ignorable
      logStartOffset        int64                     5+ = -1 ignorable
      divergingEpoch        EpochEndOffset            12+ tag 0
        epoch               int32                     12+ = -1
        endOffset           int64                     12+ = -1
      currentLeader         LeaderIdAndEpoch          12+ tag 1
        leaderId            int32                     12+ = -1
        leaderEpoch         int32                     12+ = -1
      snapshotId            SnapshotId                12+ tag 2
        endOffset           int64                     = -1
        epoch               int32                     = -1
      abortedTransactions   []AbortedTransaction?     ignorable
        producerId          int64
        firstOffset         int64
      preferredReadReplica  int32                     11+ = -1
      records               records?
  nodeEndpoints             []NodeEndpoint            16+ tag 0
    nodeId                  int32                     16+
    host                    string                    16+
    port                    int32                     16+
    rack                    string?                   16+ = null

message ListOffsetsRequest request 2 versions 1-11 flexible 6+
  replicaId               int32
  isolationLevel          int8                    2+
  topics                  []ListOffsetsTopic
    name                  string
    partitions            []ListOffsetsPartition
      partitionIndex      int32
      currentLeaderEpoch  int32                   4+ = -1 ignorable
      timestamp           int64
  timeoutMs               int32                   10+ ignorable

message ListOffsetsResponse response 2 versions 1-11 flexible 6+
  throttleTimeMs      int32                           2+ ignorable
  topics              []ListOffsetsTopicResponse
    name              string
    partitions        []ListOffsetsPartitionResponse
      partitionIndex  int32
      errorCode       int16
      timestamp       int64                           = -1
      offset          int64                           = -1
      leaderEpoch     int32                           4+ = -1

message MetadataRequest request 3 versions 0-13 flexible 9+
  topics                              []MetadataRequestTopic?1+
    topicId                           uuid                       10+ ignorable
    name                              string?10+
  allowAutoTopicCreation              bool                       4+ = true
  includeClusterAuthorizedOperations  bool                       8-10
  includeTopicAuthorizedOperations    bool                       8+

message MetadataResponse response 3 versions 0-13 flexible 9+
  throttleTimeMs               int32                        3+ ignorable
  brokers                      []MetadataResponseBroker
    nodeId                     int32
    host                       string
    port                       int32
    rack                       string?                      1+ = null ignorable
  clusterId                    string?                      2+ = null ignorable
  controllerId                 int32                        1+ = -1 ignorable
  topics                       []MetadataResponseTopic
    errorCode                  int16
    name                       string?12+
    topicId                    uuid                         10+ ignorable
    isInternal                 bool                         1+ = false ignorable
    partitions                 []MetadataResponsePartition
      errorCode                int16
      partitionIndex           int32
      leaderId                 int32
      leaderEpoch              int32                        7+ = -1 ignorable
      replicaNodes             []int32
      isrNodes                 []int32
      offlineReplicas          []int32                      5+ ignorable
    topicAuthorizedOperations  int32                        8+ = -2147483648
  clusterAuthorizedOperations  int32                        8-10 = -2147483648
  errorCode                    int16                        13+ ignorable

message ApiVersionsRequest request 18 versions 0-4 flexible 3+
  clientSoftwareName     string  3+ ignorable
  clientSoftwareVersion  string  3+ ignorable

message ApiVersionsResponse response 18 versions 0-4 flexible 3+
  errorCode               int16
  apiKeys                 []ApiVersion
    apiKey                int16
    minVersion            int16
    maxVersion            int16
  throttleTimeMs          int32                  1+ ignorable
  supportedFeatures       []SupportedFeatureKey  3+ tag 0 ignorable
    name                  string                 3+
    minVersion            int16                  3+
    maxVersion            int16                  3+
  finalizedFeaturesEpoch  int64                  3+ tag 1 = -1 ignorable
  finalizedFeatures       []FinalizedFeatureKey  3+ tag 2 ignorable
    name                  string                 3+
    maxVersionLevel       int16                  3+
    minVersionLevel       int16                  3+
  zkMigrationReady        bool                   3+ tag 3 = false ignorable

message InitProducerIdRequest request 22 versions 0-6 flexible 2+
  transactionalId       string?
  transactionTimeoutMs  int32
  producerId            int64    3+ = -1
  producerEpoch         int16    3+ = -1
  enable2Pc             bool     6+ = false
  keepPreparedTxn       bool     6+ = false

message InitProducerIdResponse response 22 versions 0-6 flexible 2+
  throttleTimeMs           int32  ignorable
  errorCode                int16
  producerId               int64  = -1
  producerEpoch            int16
  ongoingTxnProducerId     int64  6+ = -1
  ongoingTxnProducerEpoch  int16  6+ = -1

message OffsetForLeaderEpochRequest request 23 versions 2-4 flexible 4+
  replicaId               int32                       3+ = -2 ignorable
  topics                  []OffsetForLeaderTopic
    topic                 string
    partitions            []OffsetForLeaderPartition
      partition           int32
      currentLeaderEpoch  int32                       = -1 ignorable
      leaderEpoch         int32

message OffsetForLeaderEpochResponse response 23 versions 2-4 flexible 4+
  throttleTimeMs   int32                         ignorable
  topics           []OffsetForLeaderTopicResult
    topic          string
    partitions     []EpochEndOffset
      errorCode    int16
      partition    int32
      leaderEpoch  int32                         = -1 ignorable
      endOffset    int64                         = -1

message AddPartitionsToTxnRequest request 24 versions 0-5 flexible 3+
  transactions               []AddPartitionsToTxnTransaction  4+
    transactionalId          string                           4+
    producerId               int64                            4+
    producerEpoch            int16                            4+
    verifyOnly               bool                             4+ = false
    topics                   []AddPartitionsToTxnTopic        4+
  v3AndBelowTransactionalId  string                           0-3
  v3AndBelowProducerId       int64                            0-3
  v3AndBelowProducerEpoch    int16                            0-3
  v3AndBelowTopics           []AddPartitionsToTxnTopic        0-3
  struct AddPartitionsToTxnTopic
    name                     string
    partitions               []int32

message AddPartitionsToTxnResponse response 24 versions 0-5 flexible 3+
  throttleTimeMs            int32
  errorCode                 int16                                4+ ignorable
  resultsByTransaction      []AddPartitionsToTxnResult           4+
    transactionalId         string                               4+
    topicResults            []AddPartitionsToTxnTopicResult      4+
  resultsByTopicV3AndBelow  []AddPartitionsToTxnTopicResult      0-3
  struct AddPartitionsToTxnTopicResult
    name                    string
    resultsByPartition      []AddPartitionsToTxnPartitionResult
  struct AddPartitionsToTxnPartitionResult
    partitionIndex          int32
    partitionErrorCode      int16

message AddOffsetsToTxnRequest request 25 versions 0-4 flexible 3+
  transactionalId  string
  producerId       int64
  producerEpoch    int16
  groupId          string

message AddOffsetsToTxnResponse response 25 versions 0-4 flexible 3+
  throttleTimeMs  int32
  errorCode       int16

message EndTxnRequest request 26 versions 0-5 flexible 3+
  transactionalId  string
  producerId       int64
  producerEpoch    int16
  committed        bool

message EndTxnResponse response 26 versions 0-5 flexible 3+
  throttleTimeMs  int32
  errorCode       int16
  producerId      int64  5+ = -1 ignorable
  producerEpoch   int16  5+ = -1 ignorable

message TxnOffsetCommitRequest request 28 versions 0-5 flexible 3+
  transactionalId           string
  groupId                   string
  producerId                int64
  producerEpoch             int16
  generationId              int32                              3+ = -1
  memberId                  string                             3+
  groupInstanceId           string?                            3+ = null
  topics                    []TxnOffsetCommitRequestTopic
    name                    string
    partitions              []TxnOffsetCommitRequestPartition
      partitionIndex        int32
      committedOffset       int64
      committedLeaderEpoch  int32                              2+ = -1 ignorable
      committedMetadata     string?

message TxnOffsetCommitResponse response 28 versions 0-5 flexible 3+
  throttleTimeMs      int32
  topics              []TxnOffsetCommitResponseTopic
    name              string
    partitions        []TxnOffsetCommitResponsePartition
      partitionIndex  int32
      errorCode       int16
"""
