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

message DescribeProducersRequest request 61 versions 0 flexible 0+
  topics              []TopicRequest
    name              string
    partitionIndexes  []int32

message DescribeProducersResponse response 61 versions 0 flexible 0+
  throttleTimeMs               int32
  topics                       []TopicResponse
    name                       string
    partitions                 []PartitionResponse
      partitionIndex           int32
      errorCode                int16
      errorMessage             string?              = null
      activeProducers          []ProducerState
        producerId             int64
        producerEpoch          int32
        lastSequence           int32                = -1
        lastTimestamp          int64                = -1
        coordinatorEpoch       int32
        currentTxnStartOffset  int64                = -1

message DescribeTransactionsRequest request 65 versions 0 flexible 0+
  transactionalIds  []string

message DescribeTransactionsResponse response 65 versions 0 flexible 0+
  throttleTimeMs            int32
  transactionStates         []TransactionState
    errorCode               int16
    transactionalId         string
    transactionState        string
    transactionTimeoutMs    int32
    transactionStartTimeMs  int64
    producerId              int64
    producerEpoch           int16
    topics                  []TopicData
      topic                 string
      partitions            []int32

message ListTransactionsRequest request 66 versions 0-2 flexible 0+
  stateFilters            []string
  producerIdFilters       []int64
  durationFilter          int64     1+ = -1
  transactionalIdPattern  string?   2+ = null

message ListTransactionsResponse response 66 versions 0-2 flexible 0+
  throttleTimeMs       int32
  errorCode            int16
  unknownStateFilters  []string
  transactionStates    []TransactionState
    transactionalId    string
    producerId         int64
    transactionState   string

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

# requests whose headers can be decoded, but not their bodies
OTHERS = """
message SaslHandshakeRequest request 17 versions 0-1

message CreateTopicsRequest request 19 versions 2-7 flexible 5+

message DeleteTopicsRequest request 20 versions 1-6 flexible 4+

message DeleteRecordsRequest request 21 versions 0-2 flexible 2+

message WriteTxnMarkersRequest request 27 versions 1-2 flexible 1+

message DescribeAclsRequest request 29 versions 1-3 flexible 2+

message CreateAclsRequest request 30 versions 1-3 flexible 2+

message DeleteAclsRequest request 31 versions 1-3 flexible 2+

message AlterConfigsRequest request 33 versions 0-2 flexible 2+

message AlterReplicaLogDirsRequest request 34 versions 1-2 flexible 2+

message SaslAuthenticateRequest request 36 versions 0-2 flexible 2+

message CreatePartitionsRequest request 37 versions 0-3 flexible 2+

message CreateDelegationTokenRequest request 38 versions 1-3 flexible 2+

message RenewDelegationTokenRequest request 39 versions 1-2 flexible 2+

message ExpireDelegationTokenRequest request 40 versions 1-2 flexible 2+

message DescribeDelegationTokenRequest request 41 versions 1-3 flexible 2+

message DeleteGroupsRequest request 42 versions 0-2 flexible 2+

message ElectLeadersRequest request 43 versions 0-2 flexible 2+

message IncrementalAlterConfigsRequest request 44 versions 0-1 flexible 1+

message AlterPartitionReassignmentsRequest request 45 versions 0-1 flexible 0+

message OffsetDeleteRequest request 47 versions 0

message DescribeClientQuotasRequest request 48 versions 0-1 flexible 1+

message AlterClientQuotasRequest request 49 versions 0-1 flexible 1+

message DescribeUserScramCredentialsRequest request 50 versions 0 flexible 0+

message AlterUserScramCredentialsRequest request 51 versions 0 flexible 0+

message VoteRequest request 52 versions 0-2 flexible 0+

message BeginQuorumEpochRequest request 53 versions 0-1 flexible 1+

message EndQuorumEpochRequest request 54 versions 0-1 flexible 1+

message AlterPartitionRequest request 56 versions 2-3 flexible 0+

message UpdateFeaturesRequest request 57 versions 0-2 flexible 0+

message EnvelopeRequest request 58 versions 0 flexible 0+

message FetchSnapshotRequest request 59 versions 0-1 flexible 0+

message BrokerRegistrationRequest request 62 versions 0-4 flexible 0+

message BrokerHeartbeatRequest request 63 versions 0-2 flexible 0+

message UnregisterBrokerRequest request 64 versions 0 flexible 0+

message AllocateProducerIdsRequest request 67 versions 0 flexible 0+

message ControllerRegistrationRequest request 70 versions 0 flexible 0+

message GetTelemetrySubscriptionsRequest request 71 versions 0 flexible 0+

message PushTelemetryRequest request 72 versions 0 flexible 0+

message AssignReplicasToDirsRequest request 73 versions 0 flexible 0+

message ListConfigResourcesRequest request 74 versions 0-1 flexible 0+

message ShareGroupHeartbeatRequest request 76 versions 1 flexible 0+

message ShareGroupDescribeRequest request 77 versions 1 flexible 0+

message ShareFetchRequest request 78 versions 1-2 flexible 0+

message ShareAcknowledgeRequest request 79 versions 1-2 flexible 0+

message AddRaftVoterRequest request 80 versions 0-1 flexible 0+

message RemoveRaftVoterRequest request 81 versions 0 flexible 0+

message UpdateRaftVoterRequest request 82 versions 0 flexible 0+

message InitializeShareGroupStateRequest request 83 versions 0 flexible 0+

message ReadShareGroupStateRequest request 84 versions 0 flexible 0+

message WriteShareGroupStateRequest request 85 versions 0-1 flexible 0+

message DeleteShareGroupStateRequest request 86 versions 0 flexible 0+

message ReadShareGroupStateSummaryRequest request 87 versions 0-1 flexible 0+

message StreamsGroupHeartbeatRequest request 88 versions 0 flexible 0+

message StreamsGroupDescribeRequest request 89 versions 0 flexible 0+

message DescribeShareGroupOffsetsRequest request 90 versions 0-1 flexible 0+

message AlterShareGroupOffsetsRequest request 91 versions 0 flexible 0+

message DeleteShareGroupOffsetsRequest request 92 versions 0 flexible 0+
"""
