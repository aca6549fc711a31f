"""Records of `__cluster_metadata`, its snapshots, and `__remote_log_metadata` (Kafka 4.3.1; see notation.py)."""

from __future__ import annotations

CLUSTER = """
message RegisterBrokerRecord record 0 versions 0-4 flexible 0+
  brokerId               int32
  isMigratingZkBroker    bool     2+ = false
  incarnationId          uuid
  brokerEpoch            int64
  endPoints              []BrokerEndpoint
    name                 string
    host                 string
    port                 uint16
    securityProtocol     int16
  features               []BrokerFeature
    name                 string
    minSupportedVersion  int16
    maxSupportedVersion  int16
  rack                   string?
  fenced                 bool     = true
  inControlledShutdown   bool     1+ = false
  logDirs                []uuid   3+ tag 0
  cordonedLogDirs        []uuid?  4+ tag 1 = null

message UnregisterBrokerRecord record 1 versions 0 flexible 0+
  brokerId     int32
  brokerEpoch  int64

message TopicRecord record 2 versions 0 flexible 0+
  name     string
  topicId  uuid

message PartitionRecord record 3 versions 0-2 flexible 0+
  partitionId             int32     = -1
  topicId                 uuid
  replicas                []int32
  isr                     []int32
  removingReplicas        []int32
  addingReplicas          []int32
  leader                  int32     = -1
  leaderRecoveryState     int8      tag 0 = 0
  leaderEpoch             int32     = -1
  partitionEpoch          int32     = -1
  directories             []uuid    1+
  eligibleLeaderReplicas  []int32?  2+ tag 1 = null
  lastKnownElr            []int32?  2+ tag 2 = null

message ConfigRecord record 4 versions 0 flexible 0+
  resourceType  int8
  resourceName  string
  name          string
  value         string?

message PartitionChangeRecord record 5 versions 0-2 flexible 0+
  partitionId             int32     = -1
  topicId                 uuid
  isr                     []int32?  tag 0 = null
  leader                  int32     tag 1 = -2
  replicas                []int32?  tag 2 = null
  removingReplicas        []int32?  tag 3 = null
  addingReplicas          []int32?  tag 4 = null
  leaderRecoveryState     int8      tag 5 = -1
  directories             []uuid?   1+ tag 8 = null
  eligibleLeaderReplicas  []int32?  2+ tag 6 = null
  lastKnownElr            []int32?  2+ tag 7 = null

message FenceBrokerRecord record 7 versions 0 flexible 0+
  id     int32
  epoch  int64

message UnfenceBrokerRecord record 8 versions 0 flexible 0+
  id     int32
  epoch  int64

message RemoveTopicRecord record 9 versions 0 flexible 0+
  topicId  uuid

message DelegationTokenRecord record 10 versions 0 flexible 0+
  owner                string
  requester            string
  renewers             []string
  issueTimestamp       int64
  maxTimestamp         int64
  expirationTimestamp  int64
  tokenId              string

message UserScramCredentialRecord record 11 versions 0 flexible 0+
  name        string
  mechanism   int8
  salt        bytes
  storedKey   bytes
  serverKey   bytes
  iterations  int32

message FeatureLevelRecord record 12 versions 0 flexible 0+
  name          string
  featureLevel  int16

message ClientQuotaRecord record 14 versions 0 flexible 0+
  entity        []EntityData
    entityType  string
    entityName  string?
  key           string
  value         float64
  remove        bool

message ProducerIdsRecord record 15 versions 0 flexible 0+
  brokerId        int32
  brokerEpoch     int64  = -1
  nextProducerId  int64

message BrokerRegistrationChangeRecord record 17 versions 0-3 flexible 0+
  brokerId              int32
  brokerEpoch           int64
  fenced                int8     tag 0
  inControlledShutdown  int8     1+ tag 1
  logDirs               []uuid   2+ tag 2
  cordonedLogDirs       []uuid?  3+ tag 3 = null

message AccessControlEntryRecord record 18 versions 0 flexible 0+
  id              uuid
  resourceType    int8
  resourceName    string
  patternType     int8
  principal       string
  host            string
  operation       int8
  permissionType  int8

message RemoveAccessControlEntryRecord record 19 versions 0 flexible 0+
  id  uuid

message NoOpRecord record 20 versions 0 flexible 0+

message ZkMigrationStateRecord record 21 versions 0 flexible 0+
  zkMigrationState  int8

message RemoveUserScramCredentialRecord record 22 versions 0 flexible 0+
  name       string
  mechanism  int8

message BeginTransactionRecord record 23 versions 0 flexible 0+
  name  string?  tag 0 = null

message EndTransactionRecord record 24 versions 0 flexible 0+

message AbortTransactionRecord record 25 versions 0 flexible 0+
  reason  string?  tag 0 = null

message RemoveDelegationTokenRecord record 26 versions 0 flexible 0+
  tokenId  string

message RegisterControllerRecord record 27 versions 0 flexible 0+
  controllerId           int32
  incarnationId          uuid
  zkMigrationReady       bool
  endPoints              []ControllerEndpoint
    name                 string
    host                 string
    port                 uint16
    securityProtocol     int16
  features               []ControllerFeature
    name                 string
    minSupportedVersion  int16
    maxSupportedVersion  int16

message ClearElrRecord record 28 versions 0 flexible 0+
  topicName  string
"""


CONTROL_RECORDS = """
message LeaderChangeMessage control 2 versions 0-1 flexible 0+
  version             int16
  leaderId            int32
  voters              []Voter
  grantingVoters      []Voter
  struct Voter
    voterId           int32
    voterDirectoryId  uuid  1+

message SnapshotHeaderRecord control 3 versions 0 flexible 0+
  version                    int16
  lastContainedLogTimestamp  int64

message SnapshotFooterRecord control 4 versions 0 flexible 0+
  version  int16

message KRaftVersionRecord control 5 versions 0 flexible 0+
  version       int16
  kRaftVersion  int16

message VotersRecord control 6 versions 0 flexible 0+
  version                  int16
  voters                   []Voter
    voterId                int32
    voterDirectoryId       uuid
    endpoints              []Endpoint
      name                 string
      host                 string
      port                 uint16
    kRaftVersionFeature    KRaftVersionFeature
      minSupportedVersion  int16
      maxSupportedVersion  int16
"""

REMOTE_LOG = """
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
