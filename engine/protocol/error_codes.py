"""The error codes of the protocol with Kafka's classes and messages, and requests that are refused with one.

Mirrors org.apache.kafka.common.protocol.Errors (4.3.1).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self

FATAL, RETRIABLE, REFRESH = range(3)  # give up · send again · send again, and ask for new metadata (InvalidMetadataException)


class Error(IntEnum):
    """An error code. An unknown code is UNKNOWN_SERVER_ERROR.

    exception  the name of Kafka's class
    kind       FATAL, RETRIABLE or REFRESH
    message    what Kafka says if the broker says nothing
    """

    exception: str
    kind: int
    message: str

    def __new__(cls, code: int, exception: str = "", kind: int = FATAL, message: str = "") -> Self:
        """Return a member whose value is `code`."""
        member = int.__new__(cls, code)
        member._value_, member.exception, member.kind, member.message = code, exception, kind, message
        return member

    @classmethod
    def _missing_(cls, _value: object) -> Error:
        return cls.UNKNOWN_SERVER_ERROR

    @property
    def is_retriable(self) -> bool:
        """Whether the request may succeed when it is sent again (RetriableException)."""
        return self.kind != FATAL

    NONE = 0
    UNKNOWN_SERVER_ERROR = (
        -1, "UnknownServerException", FATAL,
        "The server experienced an unexpected error when processing the request.",
    )
    OFFSET_OUT_OF_RANGE = (
        1, "OffsetOutOfRangeException", FATAL,
        "The requested offset is not within the range of offsets maintained by the server.",
    )
    CORRUPT_MESSAGE = (
        2, "CorruptRecordException", RETRIABLE,
        ("This message has failed its CRC checksum, exceeds the valid size, has a null key for a compacted topic, or is "
         "otherwise corrupt."),
    )
    UNKNOWN_TOPIC_OR_PARTITION = (
        3, "UnknownTopicOrPartitionException", REFRESH,
        "This server does not host this topic-partition.",
    )
    INVALID_FETCH_SIZE = 4, "InvalidFetchSizeException", FATAL, "The requested fetch size is invalid."
    LEADER_NOT_AVAILABLE = (
        5, "LeaderNotAvailableException", REFRESH,
        "There is no leader for this topic-partition as we are in the middle of a leadership election.",
    )
    NOT_LEADER_OR_FOLLOWER = (
        6, "NotLeaderOrFollowerException", REFRESH,
        ("For requests intended only for the leader, this error indicates that the broker is not the current leader. For "
         "requests intended for any replica, this error indicates that the broker is not a replica of the topic partition."),
    )
    REQUEST_TIMED_OUT = 7, "TimeoutException", RETRIABLE, "The request timed out."
    BROKER_NOT_AVAILABLE = 8, "BrokerNotAvailableException", FATAL, "The broker is not available."
    REPLICA_NOT_AVAILABLE = (
        9, "ReplicaNotAvailableException", REFRESH,
        ("The replica is not available for the requested topic-partition. Produce/Fetch requests and other requests "
         "intended only for the leader or follower return NOT_LEADER_OR_FOLLOWER if the broker is not a replica of the "
         "topic-partition."),
    )
    MESSAGE_TOO_LARGE = (
        10, "RecordTooLargeException", FATAL,
        "The request included a message larger than the max message size the server will accept.",
    )
    STALE_CONTROLLER_EPOCH = 11, "ControllerMovedException", FATAL, "The controller moved to another broker."
    OFFSET_METADATA_TOO_LARGE = 12, "OffsetMetadataTooLarge", FATAL, "The metadata field of the offset request was too large."
    NETWORK_EXCEPTION = 13, "NetworkException", REFRESH, "The server disconnected before a response was received."
    COORDINATOR_LOAD_IN_PROGRESS = (
        14, "CoordinatorLoadInProgressException", RETRIABLE,
        "The coordinator is loading and hence can't process requests.",
    )
    COORDINATOR_NOT_AVAILABLE = 15, "CoordinatorNotAvailableException", RETRIABLE, "The coordinator is not available."
    NOT_COORDINATOR = 16, "NotCoordinatorException", RETRIABLE, "This is not the correct coordinator."
    INVALID_TOPIC_EXCEPTION = (
        17, "InvalidTopicException", FATAL,
        "The request attempted to perform an operation on an invalid topic.",
    )
    RECORD_LIST_TOO_LARGE = (
        18, "RecordBatchTooLargeException", FATAL,
        "The request included message batch larger than the configured segment size on the server.",
    )
    NOT_ENOUGH_REPLICAS = (
        19, "NotEnoughReplicasException", RETRIABLE,
        "Messages are rejected since there are fewer in-sync replicas than required.",
    )
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20, "NotEnoughReplicasAfterAppendException", RETRIABLE,
        "Messages are written to the log, but to fewer in-sync replicas than required.",
    )
    INVALID_REQUIRED_ACKS = (
        21, "InvalidRequiredAcksException", FATAL,
        "Produce request specified an invalid value for required acks.",
    )
    ILLEGAL_GENERATION = 22, "IllegalGenerationException", FATAL, "Specified group generation id is not valid."
    INCONSISTENT_GROUP_PROTOCOL = (
        23, "InconsistentGroupProtocolException", FATAL,
        ("The group member's supported protocols are incompatible with those of existing members or first group member "
         "tried to join with empty protocol type or empty protocol list."),
    )
    INVALID_GROUP_ID = 24, "InvalidGroupIdException", FATAL, "The group id is invalid."
    UNKNOWN_MEMBER_ID = 25, "UnknownMemberIdException", FATAL, "The coordinator is not aware of this member."
    INVALID_SESSION_TIMEOUT = (
        26, "InvalidSessionTimeoutException", FATAL,
        ("The session timeout is not within the range allowed by the broker (as configured by group.min.session.timeout.ms"
         " and group.max.session.timeout.ms)."),
    )
    REBALANCE_IN_PROGRESS = 27, "RebalanceInProgressException", FATAL, "The group is rebalancing, so a rejoin is needed."
    INVALID_COMMIT_OFFSET_SIZE = 28, "InvalidCommitOffsetSizeException", FATAL, "The committing offset data size is not valid."
    TOPIC_AUTHORIZATION_FAILED = 29, "TopicAuthorizationException", FATAL, "Topic authorization failed."
    GROUP_AUTHORIZATION_FAILED = 30, "GroupAuthorizationException", FATAL, "Group authorization failed."
    CLUSTER_AUTHORIZATION_FAILED = 31, "ClusterAuthorizationException", FATAL, "Cluster authorization failed."
    INVALID_TIMESTAMP = 32, "InvalidTimestampException", FATAL, "The timestamp of the message is out of acceptable range."
    UNSUPPORTED_SASL_MECHANISM = (
        33, "UnsupportedSaslMechanismException", FATAL,
        "The broker does not support the requested SASL mechanism.",
    )
    ILLEGAL_SASL_STATE = 34, "IllegalSaslStateException", FATAL, "Request is not valid given the current SASL state."
    UNSUPPORTED_VERSION = 35, "UnsupportedVersionException", FATAL, "The version of API is not supported."
    TOPIC_ALREADY_EXISTS = 36, "TopicExistsException", FATAL, "Topic with this name already exists."
    INVALID_PARTITIONS = 37, "InvalidPartitionsException", FATAL, "Number of partitions is below 1."
    INVALID_REPLICATION_FACTOR = (
        38, "InvalidReplicationFactorException", FATAL,
        "Replication factor is below 1 or larger than the number of available brokers.",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, "InvalidReplicaAssignmentException", FATAL, "Replica assignment is invalid."
    INVALID_CONFIG = 40, "InvalidConfigurationException", FATAL, "Configuration is invalid."
    NOT_CONTROLLER = 41, "NotControllerException", RETRIABLE, "This is not the correct controller for this cluster."
    INVALID_REQUEST = (
        42, "InvalidRequestException", FATAL,
        ("This most likely occurs because of a request being malformed by the client library or the message was sent to an"
         " incompatible broker. See the broker logs for more details."),
    )
    UNSUPPORTED_FOR_MESSAGE_FORMAT = (
        43, "UnsupportedForMessageFormatException", FATAL,
        "The message format version on the broker does not support the request.",
    )
    POLICY_VIOLATION = 44, "PolicyViolationException", FATAL, "Request parameters do not satisfy the configured policy."
    OUT_OF_ORDER_SEQUENCE_NUMBER = (
        45, "OutOfOrderSequenceException", FATAL,
        "The broker received an out of order sequence number.",
    )
    DUPLICATE_SEQUENCE_NUMBER = 46, "DuplicateSequenceException", FATAL, "The broker received a duplicate sequence number."
    INVALID_PRODUCER_EPOCH = 47, "InvalidProducerEpochException", FATAL, "Producer attempted to produce with an old epoch."
    INVALID_TXN_STATE = (
        48, "InvalidTxnStateException", FATAL,
        "The producer attempted a transactional operation in an invalid state.",
    )
    INVALID_PRODUCER_ID_MAPPING = (
        49, "InvalidPidMappingException", FATAL,
        "The producer attempted to use a producer id which is not currently assigned to its transactional id.",
    )
    INVALID_TRANSACTION_TIMEOUT = (
        50, "InvalidTxnTimeoutException", FATAL,
        ("The transaction timeout is larger than the maximum value allowed by the broker (as configured by "
         "transaction.max.timeout.ms)."),
    )
    CONCURRENT_TRANSACTIONS = (
        51, "ConcurrentTransactionsException", RETRIABLE,
        ("The producer attempted to update a transaction while another concurrent operation on the same transaction was "
         "ongoing."),
    )
    TRANSACTION_COORDINATOR_FENCED = (
        52, "TransactionCoordinatorFencedException", FATAL,
        ("Indicates that the transaction coordinator sending a WriteTxnMarker is no longer the current coordinator for a "
         "given producer."),
    )
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (
        53, "TransactionalIdAuthorizationException", FATAL,
        "Transactional Id authorization failed.",
    )
    SECURITY_DISABLED = 54, "SecurityDisabledException", FATAL, "Security features are disabled."
    OPERATION_NOT_ATTEMPTED = (
        55, "OperationNotAttemptedException", FATAL,
        ("The broker did not attempt to execute this operation. This may happen for batched RPCs where some operations in "
         "the batch failed, causing the broker to respond without trying the rest."),
    )
    KAFKA_STORAGE_ERROR = 56, "KafkaStorageException", REFRESH, "Disk error when trying to access log file on the disk."
    LOG_DIR_NOT_FOUND = (
        57, "LogDirNotFoundException", FATAL,
        "The user-specified log directory is not found in the broker config.",
    )
    SASL_AUTHENTICATION_FAILED = 58, "SaslAuthenticationException", FATAL, "SASL Authentication failed."
    UNKNOWN_PRODUCER_ID = (
        59, "UnknownProducerIdException", FATAL,
        ("This exception is raised by the broker if it could not locate the producer metadata associated with the "
         "producerId in question. This could happen if, for instance, the producer's records were deleted because their "
         "retention time had elapsed. Once the last records of the producerId are removed, the producer's metadata is "
         "removed from the broker, and future appends by the producer will return this exception."),
    )
    REASSIGNMENT_IN_PROGRESS = 60, "ReassignmentInProgressException", FATAL, "A partition reassignment is in progress."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "DelegationTokenDisabledException", FATAL, "Delegation Token feature is not enabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, "DelegationTokenNotFoundException", FATAL, "Delegation Token is not found on server."
    DELEGATION_TOKEN_OWNER_MISMATCH = (
        63, "DelegationTokenOwnerMismatchException", FATAL,
        "Specified Principal is not valid Owner/Renewer.",
    )
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64, "UnsupportedByAuthenticationException", FATAL,
        ("Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and on delegation token authenticated "
         "channels."),
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = (
        65, "DelegationTokenAuthorizationException", FATAL,
        "Delegation Token authorization failed.",
    )
    DELEGATION_TOKEN_EXPIRED = 66, "DelegationTokenExpiredException", FATAL, "Delegation Token is expired."
    INVALID_PRINCIPAL_TYPE = 67, "InvalidPrincipalTypeException", FATAL, "Supplied principalType is not supported."
    NON_EMPTY_GROUP = 68, "GroupNotEmptyException", FATAL, "The group is not empty."
    GROUP_ID_NOT_FOUND = 69, "GroupIdNotFoundException", FATAL, "The group id does not exist."
    FETCH_SESSION_ID_NOT_FOUND = 70, "FetchSessionIdNotFoundException", RETRIABLE, "The fetch session ID was not found."
    INVALID_FETCH_SESSION_EPOCH = 71, "InvalidFetchSessionEpochException", RETRIABLE, "The fetch session epoch is invalid."
    LISTENER_NOT_FOUND = (
        72, "ListenerNotFoundException", REFRESH,
        "There is no listener on the leader broker that matches the listener on which metadata request was processed.",
    )
    TOPIC_DELETION_DISABLED = 73, "TopicDeletionDisabledException", FATAL, "Topic deletion is disabled."
    FENCED_LEADER_EPOCH = (
        74, "FencedLeaderEpochException", REFRESH,
        "The leader epoch in the request is older than the epoch on the broker.",
    )
    UNKNOWN_LEADER_EPOCH = (
        75, "UnknownLeaderEpochException", RETRIABLE,
        "The leader epoch in the request is newer than the epoch on the broker.",
    )
    UNSUPPORTED_COMPRESSION_TYPE = (
        76, "UnsupportedCompressionTypeException", FATAL,
        "The requesting client does not support the compression type of given partition.",
    )
    STALE_BROKER_EPOCH = 77, "StaleBrokerEpochException", FATAL, "Broker epoch has changed."
    OFFSET_NOT_AVAILABLE = (
        78, "OffsetNotAvailableException", RETRIABLE,
        ("The leader high watermark has not caught up from a recent leader election so the offsets cannot be guaranteed to"
         " be monotonically increasing."),
    )
    MEMBER_ID_REQUIRED = (
        79, "MemberIdRequiredException", FATAL,
        "The group member needs to have a valid member id before actually entering a consumer group.",
    )
    PREFERRED_LEADER_NOT_AVAILABLE = (
        80, "PreferredLeaderNotAvailableException", REFRESH,
        "The preferred leader was not available.",
    )
    GROUP_MAX_SIZE_REACHED = 81, "GroupMaxSizeReachedException", FATAL, "The group has reached its maximum size."
    FENCED_INSTANCE_ID = (
        82, "FencedInstanceIdException", FATAL,
        ("The broker rejected this static consumer since another consumer with the same group.instance.id has registered "
         "with a different member.id."),
    )
    ELIGIBLE_LEADERS_NOT_AVAILABLE = (
        83, "EligibleLeadersNotAvailableException", REFRESH,
        "Eligible topic partition leaders are not available.",
    )
    ELECTION_NOT_NEEDED = 84, "ElectionNotNeededException", REFRESH, "Leader election not needed for topic partition."
    NO_REASSIGNMENT_IN_PROGRESS = 85, "NoReassignmentInProgressException", FATAL, "No partition reassignment is in progress."
    GROUP_SUBSCRIBED_TO_TOPIC = (
        86, "GroupSubscribedToTopicException", FATAL,
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it.",
    )
    INVALID_RECORD = (
        87, "InvalidRecordException", FATAL,
        "This record has failed the validation on broker and hence will be rejected.",
    )
    UNSTABLE_OFFSET_COMMIT = (
        88, "UnstableOffsetCommitException", RETRIABLE,
        "There are unstable offsets that need to be cleared.",
    )
    THROTTLING_QUOTA_EXCEEDED = 89, "ThrottlingQuotaExceededException", RETRIABLE, "The throttling quota has been exceeded."
    PRODUCER_FENCED = (
        90, "ProducerFencedException", FATAL,
        "There is a newer producer with the same transactionalId which fences the current one.",
    )
    RESOURCE_NOT_FOUND = (
        91, "ResourceNotFoundException", FATAL,
        "A request illegally referred to a resource that does not exist.",
    )
    DUPLICATE_RESOURCE = 92, "DuplicateResourceException", FATAL, "A request illegally referred to the same resource twice."
    UNACCEPTABLE_CREDENTIAL = (
        93, "UnacceptableCredentialException", FATAL,
        "Requested credential would not meet criteria for acceptability.",
    )
    INCONSISTENT_VOTER_SET = (
        94, "InconsistentVoterSetException", FATAL,
        "Indicates that the either the sender or recipient of a voter-only request is not one of the expected voters.",
    )
    INVALID_UPDATE_VERSION = 95, "InvalidUpdateVersionException", FATAL, "The given update version was invalid."
    FEATURE_UPDATE_FAILED = (
        96, "FeatureUpdateFailedException", FATAL,
        "Unable to update finalized features due to an unexpected server error.",
    )
    PRINCIPAL_DESERIALIZATION_FAILURE = (
        97, "PrincipalDeserializationException", FATAL,
        ("Request principal deserialization failed during forwarding. This indicates an internal error on the broker "
         "cluster security setup."),
    )
    SNAPSHOT_NOT_FOUND = 98, "SnapshotNotFoundException", FATAL, "Requested snapshot was not found."
    POSITION_OUT_OF_RANGE = (
        99, "PositionOutOfRangeException", FATAL,
        "Requested position is not greater than or equal to zero, and less than the size of the snapshot.",
    )
    UNKNOWN_TOPIC_ID = 100, "UnknownTopicIdException", REFRESH, "This server does not host this topic ID."
    DUPLICATE_BROKER_REGISTRATION = 101, "DuplicateBrokerRegistrationException", FATAL, "This broker ID is already in use."
    BROKER_ID_NOT_REGISTERED = 102, "BrokerIdNotRegisteredException", FATAL, "The given broker ID was not registered."
    INCONSISTENT_TOPIC_ID = (
        103, "InconsistentTopicIdException", REFRESH,
        "The log's topic ID did not match the topic ID in the request.",
    )
    INCONSISTENT_CLUSTER_ID = (
        104, "InconsistentClusterIdException", FATAL,
        "The clusterId in the request does not match that found on the server.",
    )
    TRANSACTIONAL_ID_NOT_FOUND = 105, "TransactionalIdNotFoundException", FATAL, "The transactionalId could not be found."
    FETCH_SESSION_TOPIC_ID_ERROR = (
        106, "FetchSessionTopicIdException", RETRIABLE,
        "The fetch session encountered inconsistent topic ID usage.",
    )
    INELIGIBLE_REPLICA = 107, "IneligibleReplicaException", FATAL, "The new ISR contains at least one ineligible replica."
    NEW_LEADER_ELECTED = (
        108, "NewLeaderElectedException", FATAL,
        "The AlterPartition request successfully updated the partition state but the leader has changed.",
    )
    OFFSET_MOVED_TO_TIERED_STORAGE = (
        109, "OffsetMovedToTieredStorageException", FATAL,
        "The requested offset is moved to tiered storage.",
    )
    FENCED_MEMBER_EPOCH = (
        110, "FencedMemberEpochException", FATAL,
        "The member epoch is fenced by the group coordinator. The member must abandon all its partitions and rejoin.",
    )
    UNRELEASED_INSTANCE_ID = (
        111, "UnreleasedInstanceIdException", FATAL,
        "The instance ID is still used by another member in the consumer group. That member must leave first.",
    )
    UNSUPPORTED_ASSIGNOR = (
        112, "UnsupportedAssignorException", FATAL,
        "The assignor or its version range is not supported by the consumer group.",
    )
    STALE_MEMBER_EPOCH = (
        113, "StaleMemberEpochException", FATAL,
        ("The member epoch is stale. The member must retry after receiving its updated member epoch via the "
         "ConsumerGroupHeartbeat API."),
    )
    MISMATCHED_ENDPOINT_TYPE = (
        114, "MismatchedEndpointTypeException", FATAL,
        "The request was sent to an endpoint of the wrong type.",
    )
    UNSUPPORTED_ENDPOINT_TYPE = 115, "UnsupportedEndpointTypeException", FATAL, "This endpoint type is not supported yet."
    UNKNOWN_CONTROLLER_ID = 116, "UnknownControllerIdException", FATAL, "This controller ID is not known."
    UNKNOWN_SUBSCRIPTION_ID = (
        117, "UnknownSubscriptionIdException", FATAL,
        "Client sent a push telemetry request with an invalid or outdated subscription ID.",
    )
    TELEMETRY_TOO_LARGE = (
        118, "TelemetryTooLargeException", FATAL,
        "Client sent a push telemetry request larger than the maximum size the broker will accept.",
    )
    INVALID_REGISTRATION = (
        119, "InvalidRegistrationException", FATAL,
        "The controller has considered the broker registration to be invalid.",
    )
    TRANSACTION_ABORTABLE = (
        120, "TransactionAbortableException", FATAL,
        ("The server encountered an error with the transaction. The client can abort the transaction to continue using "
         "this transactional ID."),
    )
    INVALID_RECORD_STATE = (
        121, "InvalidRecordStateException", FATAL,
        "The record state is invalid. The acknowledgement of delivery could not be completed.",
    )
    SHARE_SESSION_NOT_FOUND = 122, "ShareSessionNotFoundException", RETRIABLE, "The share session was not found."
    INVALID_SHARE_SESSION_EPOCH = 123, "InvalidShareSessionEpochException", RETRIABLE, "The share session epoch is invalid."
    FENCED_STATE_EPOCH = (
        124, "FencedStateEpochException", FATAL,
        "The share coordinator rejected the request because the share-group state epoch did not match.",
    )
    INVALID_VOTER_KEY = 125, "InvalidVoterKeyException", FATAL, "The voter key doesn't match the receiving replica's key."
    DUPLICATE_VOTER = 126, "DuplicateVoterException", FATAL, "The voter is already part of the set of voters."
    VOTER_NOT_FOUND = 127, "VoterNotFoundException", FATAL, "The voter is not part of the set of voters."
    INVALID_REGULAR_EXPRESSION = 128, "InvalidRegularExpression", FATAL, "The regular expression is not valid."
    REBOOTSTRAP_REQUIRED = (
        129, "RebootstrapRequiredException", FATAL,
        "Client metadata is stale. The client should rebootstrap to obtain new metadata.",
    )
    STREAMS_INVALID_TOPOLOGY = 130, "StreamsInvalidTopologyException", FATAL, "The supplied topology is invalid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = (
        131, "StreamsInvalidTopologyEpochException", FATAL,
        "The supplied topology epoch is invalid.",
    )
    STREAMS_TOPOLOGY_FENCED = 132, "StreamsTopologyFencedException", FATAL, "The supplied topology epoch is outdated."
    SHARE_SESSION_LIMIT_REACHED = (
        133, "ShareSessionLimitReachedException", RETRIABLE,
        "The limit of share sessions has been reached.",
    )


class RefusedError(Exception):
    """A request, or a part of it, that is answered with an error code. `message`: Kafka's, if there is a field for it."""

    def __init__(self, error: Error, message: str | None = None) -> None:
        super().__init__(message or error.name)
        self.error, self.message = error, message
