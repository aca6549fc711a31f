"""Errors that a broker answers, and how a producer fails a record: names, classes and messages of Kafka.

Mirrors org.apache.kafka.common.protocol.Errors (4.3.1).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from engine.errors import KafkalogError

FATAL, RETRIABLE, REFRESH = range(3)  # give up · send again · send again, and ask for new metadata (InvalidMetadataException)


class Error(NamedTuple):
    """An error code. `kind`: FATAL, RETRIABLE or REFRESH."""

    code: int
    name: str
    exception: str
    kind: int
    message: str

    @property
    def is_retriable(self) -> bool:
        """Whether the request may succeed when it is sent again (RetriableException)."""
        return self.kind != FATAL

    @property
    def refreshes(self) -> bool:
        """Whether the metadata is out of date (InvalidMetadataException)."""
        return self.kind == REFRESH


class ProducerError(KafkalogError):
    """A record, a call or a configuration that the producer refuses. Its text is that of Kafka's exception `name`."""

    code = "producer"

    def __init__(self, name: str, message: str, *, is_retriable: bool = False) -> None:
        super().__init__(f"{name}: {message}")
        self.name, self.text, self.is_retriable = name, message, is_retriable

    @classmethod
    def of(cls, error: Error, message: str | None = None) -> ProducerError:
        """Return the exception of an error code, with the broker's message if there is one."""
        return cls(error.exception, error.message if message is None else message, is_retriable=error.is_retriable)

    @classmethod
    def named(cls, name: str) -> ProducerError:
        """Return the exception of the error with Kafka's constant name."""
        return cls.of(error_named(name))


def error_of(code: int) -> Error:
    """Return the error of a code; an unknown one is UNKNOWN_SERVER_ERROR."""
    return _by_code().get(code) or _by_code()[-1]


def error_named(name: str) -> Error:
    """Return the error with Kafka's constant name. Raises KeyError."""
    return next(error for error in _by_code().values() if error.name == name)


@cache
def _by_code() -> dict[int, Error]:
    return {row[0]: Error(*row) for row in _ERRORS}


_ERRORS = (
    (0, "NONE", "", FATAL, ""),
    (-1, "UNKNOWN_SERVER_ERROR", "UnknownServerException", FATAL,
     "The server experienced an unexpected error when processing the request."),
    (1, "OFFSET_OUT_OF_RANGE", "OffsetOutOfRangeException", FATAL,
     "The requested offset is not within the range of offsets maintained by the server."),
    (2, "CORRUPT_MESSAGE", "CorruptRecordException", RETRIABLE,
     ("This message has failed its CRC checksum, exceeds the valid size, has a null key for a compacted topic, or is "
     "otherwise corrupt.")),
    (3, "UNKNOWN_TOPIC_OR_PARTITION", "UnknownTopicOrPartitionException", REFRESH,
     "This server does not host this topic-partition."),
    (4, "INVALID_FETCH_SIZE", "InvalidFetchSizeException", FATAL, "The requested fetch size is invalid."),
    (5, "LEADER_NOT_AVAILABLE", "LeaderNotAvailableException", REFRESH,
     "There is no leader for this topic-partition as we are in the middle of a leadership election."),
    (6, "NOT_LEADER_OR_FOLLOWER", "NotLeaderOrFollowerException", REFRESH,
     ("For requests intended only for the leader, this error indicates that the broker is not the current leader. For "
     "requests intended for any replica, this error indicates that the broker is not a replica of the topic partition.")),
    (7, "REQUEST_TIMED_OUT", "TimeoutException", RETRIABLE, "The request timed out."),
    (8, "BROKER_NOT_AVAILABLE", "BrokerNotAvailableException", FATAL, "The broker is not available."),
    (9, "REPLICA_NOT_AVAILABLE", "ReplicaNotAvailableException", REFRESH,
     ("The replica is not available for the requested topic-partition. Produce/Fetch requests and other requests "
     "intended only for the leader or follower return NOT_LEADER_OR_FOLLOWER if the broker is not a replica of the "
     "topic-partition.")),
    (10, "MESSAGE_TOO_LARGE", "RecordTooLargeException", FATAL,
     "The request included a message larger than the max message size the server will accept."),
    (11, "STALE_CONTROLLER_EPOCH", "ControllerMovedException", FATAL, "The controller moved to another broker."),
    (12, "OFFSET_METADATA_TOO_LARGE", "OffsetMetadataTooLarge", FATAL,
     "The metadata field of the offset request was too large."),
    (13, "NETWORK_EXCEPTION", "NetworkException", REFRESH, "The server disconnected before a response was received."),
    (14, "COORDINATOR_LOAD_IN_PROGRESS", "CoordinatorLoadInProgressException", RETRIABLE,
     "The coordinator is loading and hence can't process requests."),
    (15, "COORDINATOR_NOT_AVAILABLE", "CoordinatorNotAvailableException", RETRIABLE, "The coordinator is not available."),
    (16, "NOT_COORDINATOR", "NotCoordinatorException", RETRIABLE, "This is not the correct coordinator."),
    (17, "INVALID_TOPIC_EXCEPTION", "InvalidTopicException", FATAL,
     "The request attempted to perform an operation on an invalid topic."),
    (18, "RECORD_LIST_TOO_LARGE", "RecordBatchTooLargeException", FATAL,
     "The request included message batch larger than the configured segment size on the server."),
    (19, "NOT_ENOUGH_REPLICAS", "NotEnoughReplicasException", RETRIABLE,
     "Messages are rejected since there are fewer in-sync replicas than required."),
    (20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "NotEnoughReplicasAfterAppendException", RETRIABLE,
     "Messages are written to the log, but to fewer in-sync replicas than required."),
    (21, "INVALID_REQUIRED_ACKS", "InvalidRequiredAcksException", FATAL,
     "Produce request specified an invalid value for required acks."),
    (22, "ILLEGAL_GENERATION", "IllegalGenerationException", FATAL, "Specified group generation id is not valid."),
    (23, "INCONSISTENT_GROUP_PROTOCOL", "InconsistentGroupProtocolException", FATAL,
     ("The group member's supported protocols are incompatible with those of existing members or first group member "
     "tried to join with empty protocol type or empty protocol list.")),
    (24, "INVALID_GROUP_ID", "InvalidGroupIdException", FATAL, "The group id is invalid."),
    (25, "UNKNOWN_MEMBER_ID", "UnknownMemberIdException", FATAL, "The coordinator is not aware of this member."),
    (26, "INVALID_SESSION_TIMEOUT", "InvalidSessionTimeoutException", FATAL,
     ("The session timeout is not within the range allowed by the broker (as configured by group.min.session.timeout.ms"
     " and group.max.session.timeout.ms).")),
    (27, "REBALANCE_IN_PROGRESS", "RebalanceInProgressException", FATAL, "The group is rebalancing, so a rejoin is needed."),
    (28, "INVALID_COMMIT_OFFSET_SIZE", "InvalidCommitOffsetSizeException", FATAL,
     "The committing offset data size is not valid."),
    (29, "TOPIC_AUTHORIZATION_FAILED", "TopicAuthorizationException", FATAL, "Topic authorization failed."),
    (30, "GROUP_AUTHORIZATION_FAILED", "GroupAuthorizationException", FATAL, "Group authorization failed."),
    (31, "CLUSTER_AUTHORIZATION_FAILED", "ClusterAuthorizationException", FATAL, "Cluster authorization failed."),
    (32, "INVALID_TIMESTAMP", "InvalidTimestampException", FATAL, "The timestamp of the message is out of acceptable range."),
    (33, "UNSUPPORTED_SASL_MECHANISM", "UnsupportedSaslMechanismException", FATAL,
     "The broker does not support the requested SASL mechanism."),
    (34, "ILLEGAL_SASL_STATE", "IllegalSaslStateException", FATAL, "Request is not valid given the current SASL state."),
    (35, "UNSUPPORTED_VERSION", "UnsupportedVersionException", FATAL, "The version of API is not supported."),
    (36, "TOPIC_ALREADY_EXISTS", "TopicExistsException", FATAL, "Topic with this name already exists."),
    (37, "INVALID_PARTITIONS", "InvalidPartitionsException", FATAL, "Number of partitions is below 1."),
    (38, "INVALID_REPLICATION_FACTOR", "InvalidReplicationFactorException", FATAL,
     "Replication factor is below 1 or larger than the number of available brokers."),
    (39, "INVALID_REPLICA_ASSIGNMENT", "InvalidReplicaAssignmentException", FATAL, "Replica assignment is invalid."),
    (40, "INVALID_CONFIG", "InvalidConfigurationException", FATAL, "Configuration is invalid."),
    (41, "NOT_CONTROLLER", "NotControllerException", RETRIABLE, "This is not the correct controller for this cluster."),
    (42, "INVALID_REQUEST", "InvalidRequestException", FATAL,
     ("This most likely occurs because of a request being malformed by the client library or the message was sent to an"
     " incompatible broker. See the broker logs for more details.")),
    (43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", "UnsupportedForMessageFormatException", FATAL,
     "The message format version on the broker does not support the request."),
    (44, "POLICY_VIOLATION", "PolicyViolationException", FATAL, "Request parameters do not satisfy the configured policy."),
    (45, "OUT_OF_ORDER_SEQUENCE_NUMBER", "OutOfOrderSequenceException", FATAL,
     "The broker received an out of order sequence number."),
    (46, "DUPLICATE_SEQUENCE_NUMBER", "DuplicateSequenceException", FATAL, "The broker received a duplicate sequence number."),
    (47, "INVALID_PRODUCER_EPOCH", "InvalidProducerEpochException", FATAL, "Producer attempted to produce with an old epoch."),
    (48, "INVALID_TXN_STATE", "InvalidTxnStateException", FATAL,
     "The producer attempted a transactional operation in an invalid state."),
    (49, "INVALID_PRODUCER_ID_MAPPING", "InvalidPidMappingException", FATAL,
     "The producer attempted to use a producer id which is not currently assigned to its transactional id."),
    (50, "INVALID_TRANSACTION_TIMEOUT", "InvalidTxnTimeoutException", FATAL,
     ("The transaction timeout is larger than the maximum value allowed by the broker (as configured by "
     "transaction.max.timeout.ms).")),
    (51, "CONCURRENT_TRANSACTIONS", "ConcurrentTransactionsException", RETRIABLE,
     ("The producer attempted to update a transaction while another concurrent operation on the same transaction was "
     "ongoing.")),
    (52, "TRANSACTION_COORDINATOR_FENCED", "TransactionCoordinatorFencedException", FATAL,
     ("Indicates that the transaction coordinator sending a WriteTxnMarker is no longer the current coordinator for a "
     "given producer.")),
    (53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "TransactionalIdAuthorizationException", FATAL,
     "Transactional Id authorization failed."),
    (54, "SECURITY_DISABLED", "SecurityDisabledException", FATAL, "Security features are disabled."),
    (55, "OPERATION_NOT_ATTEMPTED", "OperationNotAttemptedException", FATAL,
     ("The broker did not attempt to execute this operation. This may happen for batched RPCs where some operations in "
     "the batch failed, causing the broker to respond without trying the rest.")),
    (56, "KAFKA_STORAGE_ERROR", "KafkaStorageException", REFRESH, "Disk error when trying to access log file on the disk."),
    (57, "LOG_DIR_NOT_FOUND", "LogDirNotFoundException", FATAL,
     "The user-specified log directory is not found in the broker config."),
    (58, "SASL_AUTHENTICATION_FAILED", "SaslAuthenticationException", FATAL, "SASL Authentication failed."),
    (59, "UNKNOWN_PRODUCER_ID", "UnknownProducerIdException", FATAL,
     ("This exception is raised by the broker if it could not locate the producer metadata associated with the "
     "producerId in question. This could happen if, for instance, the producer's records were deleted because their "
     "retention time had elapsed. Once the last records of the producerId are removed, the producer's metadata is "
     "removed from the broker, and future appends by the producer will return this exception.")),
    (60, "REASSIGNMENT_IN_PROGRESS", "ReassignmentInProgressException", FATAL, "A partition reassignment is in progress."),
    (61, "DELEGATION_TOKEN_AUTH_DISABLED", "DelegationTokenDisabledException", FATAL,
     "Delegation Token feature is not enabled."),
    (62, "DELEGATION_TOKEN_NOT_FOUND", "DelegationTokenNotFoundException", FATAL, "Delegation Token is not found on server."),
    (63, "DELEGATION_TOKEN_OWNER_MISMATCH", "DelegationTokenOwnerMismatchException", FATAL,
     "Specified Principal is not valid Owner/Renewer."),
    (64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", "UnsupportedByAuthenticationException", FATAL,
     ("Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and on delegation token authenticated "
     "channels.")),
    (65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", "DelegationTokenAuthorizationException", FATAL,
     "Delegation Token authorization failed."),
    (66, "DELEGATION_TOKEN_EXPIRED", "DelegationTokenExpiredException", FATAL, "Delegation Token is expired."),
    (67, "INVALID_PRINCIPAL_TYPE", "InvalidPrincipalTypeException", FATAL, "Supplied principalType is not supported."),
    (68, "NON_EMPTY_GROUP", "GroupNotEmptyException", FATAL, "The group is not empty."),
    (69, "GROUP_ID_NOT_FOUND", "GroupIdNotFoundException", FATAL, "The group id does not exist."),
    (70, "FETCH_SESSION_ID_NOT_FOUND", "FetchSessionIdNotFoundException", RETRIABLE, "The fetch session ID was not found."),
    (71, "INVALID_FETCH_SESSION_EPOCH", "InvalidFetchSessionEpochException", RETRIABLE, "The fetch session epoch is invalid."),
    (72, "LISTENER_NOT_FOUND", "ListenerNotFoundException", REFRESH,
     "There is no listener on the leader broker that matches the listener on which metadata request was processed."),
    (73, "TOPIC_DELETION_DISABLED", "TopicDeletionDisabledException", FATAL, "Topic deletion is disabled."),
    (74, "FENCED_LEADER_EPOCH", "FencedLeaderEpochException", REFRESH,
     "The leader epoch in the request is older than the epoch on the broker."),
    (75, "UNKNOWN_LEADER_EPOCH", "UnknownLeaderEpochException", RETRIABLE,
     "The leader epoch in the request is newer than the epoch on the broker."),
    (76, "UNSUPPORTED_COMPRESSION_TYPE", "UnsupportedCompressionTypeException", FATAL,
     "The requesting client does not support the compression type of given partition."),
    (77, "STALE_BROKER_EPOCH", "StaleBrokerEpochException", FATAL, "Broker epoch has changed."),
    (78, "OFFSET_NOT_AVAILABLE", "OffsetNotAvailableException", RETRIABLE,
     ("The leader high watermark has not caught up from a recent leader election so the offsets cannot be guaranteed to"
     " be monotonically increasing.")),
    (79, "MEMBER_ID_REQUIRED", "MemberIdRequiredException", FATAL,
     "The group member needs to have a valid member id before actually entering a consumer group."),
    (80, "PREFERRED_LEADER_NOT_AVAILABLE", "PreferredLeaderNotAvailableException", REFRESH,
     "The preferred leader was not available."),
    (81, "GROUP_MAX_SIZE_REACHED", "GroupMaxSizeReachedException", FATAL, "The group has reached its maximum size."),
    (82, "FENCED_INSTANCE_ID", "FencedInstanceIdException", FATAL,
     ("The broker rejected this static consumer since another consumer with the same group.instance.id has registered "
     "with a different member.id.")),
    (83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", "EligibleLeadersNotAvailableException", REFRESH,
     "Eligible topic partition leaders are not available."),
    (84, "ELECTION_NOT_NEEDED", "ElectionNotNeededException", REFRESH, "Leader election not needed for topic partition."),
    (85, "NO_REASSIGNMENT_IN_PROGRESS", "NoReassignmentInProgressException", FATAL,
     "No partition reassignment is in progress."),
    (86, "GROUP_SUBSCRIBED_TO_TOPIC", "GroupSubscribedToTopicException", FATAL,
     "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it."),
    (87, "INVALID_RECORD", "InvalidRecordException", FATAL,
     "This record has failed the validation on broker and hence will be rejected."),
    (88, "UNSTABLE_OFFSET_COMMIT", "UnstableOffsetCommitException", RETRIABLE,
     "There are unstable offsets that need to be cleared."),
    (89, "THROTTLING_QUOTA_EXCEEDED", "ThrottlingQuotaExceededException", RETRIABLE, "The throttling quota has been exceeded."),
    (90, "PRODUCER_FENCED", "ProducerFencedException", FATAL,
     "There is a newer producer with the same transactionalId which fences the current one."),
    (91, "RESOURCE_NOT_FOUND", "ResourceNotFoundException", FATAL,
     "A request illegally referred to a resource that does not exist."),
    (92, "DUPLICATE_RESOURCE", "DuplicateResourceException", FATAL, "A request illegally referred to the same resource twice."),
    (93, "UNACCEPTABLE_CREDENTIAL", "UnacceptableCredentialException", FATAL,
     "Requested credential would not meet criteria for acceptability."),
    (94, "INCONSISTENT_VOTER_SET", "InconsistentVoterSetException", FATAL,
     "Indicates that the either the sender or recipient of a voter-only request is not one of the expected voters."),
    (95, "INVALID_UPDATE_VERSION", "InvalidUpdateVersionException", FATAL, "The given update version was invalid."),
    (96, "FEATURE_UPDATE_FAILED", "FeatureUpdateFailedException", FATAL,
     "Unable to update finalized features due to an unexpected server error."),
    (97, "PRINCIPAL_DESERIALIZATION_FAILURE", "PrincipalDeserializationException", FATAL,
     ("Request principal deserialization failed during forwarding. This indicates an internal error on the broker "
     "cluster security setup.")),
    (98, "SNAPSHOT_NOT_FOUND", "SnapshotNotFoundException", FATAL, "Requested snapshot was not found."),
    (99, "POSITION_OUT_OF_RANGE", "PositionOutOfRangeException", FATAL,
     "Requested position is not greater than or equal to zero, and less than the size of the snapshot."),
    (100, "UNKNOWN_TOPIC_ID", "UnknownTopicIdException", REFRESH, "This server does not host this topic ID."),
    (101, "DUPLICATE_BROKER_REGISTRATION", "DuplicateBrokerRegistrationException", FATAL, "This broker ID is already in use."),
    (102, "BROKER_ID_NOT_REGISTERED", "BrokerIdNotRegisteredException", FATAL, "The given broker ID was not registered."),
    (103, "INCONSISTENT_TOPIC_ID", "InconsistentTopicIdException", REFRESH,
     "The log's topic ID did not match the topic ID in the request."),
    (104, "INCONSISTENT_CLUSTER_ID", "InconsistentClusterIdException", FATAL,
     "The clusterId in the request does not match that found on the server."),
    (105, "TRANSACTIONAL_ID_NOT_FOUND", "TransactionalIdNotFoundException", FATAL, "The transactionalId could not be found."),
    (106, "FETCH_SESSION_TOPIC_ID_ERROR", "FetchSessionTopicIdException", RETRIABLE,
     "The fetch session encountered inconsistent topic ID usage."),
    (107, "INELIGIBLE_REPLICA", "IneligibleReplicaException", FATAL, "The new ISR contains at least one ineligible replica."),
    (108, "NEW_LEADER_ELECTED", "NewLeaderElectedException", FATAL,
     "The AlterPartition request successfully updated the partition state but the leader has changed."),
    (109, "OFFSET_MOVED_TO_TIERED_STORAGE", "OffsetMovedToTieredStorageException", FATAL,
     "The requested offset is moved to tiered storage."),
    (110, "FENCED_MEMBER_EPOCH", "FencedMemberEpochException", FATAL,
     "The member epoch is fenced by the group coordinator. The member must abandon all its partitions and rejoin."),
    (111, "UNRELEASED_INSTANCE_ID", "UnreleasedInstanceIdException", FATAL,
     "The instance ID is still used by another member in the consumer group. That member must leave first."),
    (112, "UNSUPPORTED_ASSIGNOR", "UnsupportedAssignorException", FATAL,
     "The assignor or its version range is not supported by the consumer group."),
    (113, "STALE_MEMBER_EPOCH", "StaleMemberEpochException", FATAL,
     ("The member epoch is stale. The member must retry after receiving its updated member epoch via the "
     "ConsumerGroupHeartbeat API.")),
    (114, "MISMATCHED_ENDPOINT_TYPE", "MismatchedEndpointTypeException", FATAL,
     "The request was sent to an endpoint of the wrong type."),
    (115, "UNSUPPORTED_ENDPOINT_TYPE", "UnsupportedEndpointTypeException", FATAL, "This endpoint type is not supported yet."),
    (116, "UNKNOWN_CONTROLLER_ID", "UnknownControllerIdException", FATAL, "This controller ID is not known."),
    (117, "UNKNOWN_SUBSCRIPTION_ID", "UnknownSubscriptionIdException", FATAL,
     "Client sent a push telemetry request with an invalid or outdated subscription ID."),
    (118, "TELEMETRY_TOO_LARGE", "TelemetryTooLargeException", FATAL,
     "Client sent a push telemetry request larger than the maximum size the broker will accept."),
    (119, "INVALID_REGISTRATION", "InvalidRegistrationException", FATAL,
     "The controller has considered the broker registration to be invalid."),
    (120, "TRANSACTION_ABORTABLE", "TransactionAbortableException", FATAL,
     ("The server encountered an error with the transaction. The client can abort the transaction to continue using "
     "this transactional ID.")),
    (121, "INVALID_RECORD_STATE", "InvalidRecordStateException", FATAL,
     "The record state is invalid. The acknowledgement of delivery could not be completed."),
    (122, "SHARE_SESSION_NOT_FOUND", "ShareSessionNotFoundException", RETRIABLE, "The share session was not found."),
    (123, "INVALID_SHARE_SESSION_EPOCH", "InvalidShareSessionEpochException", RETRIABLE, "The share session epoch is invalid."),
    (124, "FENCED_STATE_EPOCH", "FencedStateEpochException", FATAL,
     "The share coordinator rejected the request because the share-group state epoch did not match."),
    (125, "INVALID_VOTER_KEY", "InvalidVoterKeyException", FATAL, "The voter key doesn't match the receiving replica's key."),
    (126, "DUPLICATE_VOTER", "DuplicateVoterException", FATAL, "The voter is already part of the set of voters."),
    (127, "VOTER_NOT_FOUND", "VoterNotFoundException", FATAL, "The voter is not part of the set of voters."),
    (128, "INVALID_REGULAR_EXPRESSION", "InvalidRegularExpression", FATAL, "The regular expression is not valid."),
    (129, "REBOOTSTRAP_REQUIRED", "RebootstrapRequiredException", FATAL,
     "Client metadata is stale. The client should rebootstrap to obtain new metadata."),
    (130, "STREAMS_INVALID_TOPOLOGY", "StreamsInvalidTopologyException", FATAL, "The supplied topology is invalid."),
    (131, "STREAMS_INVALID_TOPOLOGY_EPOCH", "StreamsInvalidTopologyEpochException", FATAL,
     "The supplied topology epoch is invalid."),
    (132, "STREAMS_TOPOLOGY_FENCED", "StreamsTopologyFencedException", FATAL, "The supplied topology epoch is outdated."),
    (133, "SHARE_SESSION_LIMIT_REACHED", "ShareSessionLimitReachedException", RETRIABLE,
     "The limit of share sessions has been reached."),
)
