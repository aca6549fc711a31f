"""KRaft's control records: the id is the control record's type (Kafka 4.3.1; see notation.py)."""

MESSAGES = """
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
