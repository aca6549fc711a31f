"""Requests to answers: which APIs and versions are served, and who answers them. Mirrors KafkaApis and ApiVersionsResponse."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.protocol.error_codes import Error
from engine.protocol.frames import decode_request_body, decode_request_header, encode_response
from engine.protocol.messages import api_key, api_name, api_versions
from engine.schema.wire import SchemaError
from engine.serve.cluster import ClusterAnswers
from engine.serve.configs import describe_configs
from engine.serve.fetch_sessions import FetchSessions
from engine.serve.fetching import Fetching
from engine.serve.group_common import Client
from engine.serve.groups import GROUP_APIS, GroupCoordinator
from engine.serve.list_offsets import list_offsets, offsets_for_leader_epochs
from engine.serve.partition_reads import close_slices
from engine.serve.producing import Unanswered, refused_produce
from engine.serve.quorum import describe_quorum
from engine.serve.transaction_states import StatesOnDisk, TransactionAnswers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sized

    from engine.log.fetch.stored_groups import StoredGroup
    from engine.protocol.frames import RequestHeader
    from engine.serve.catalogue import Catalogue
    from engine.serve.cluster import Address
    from engine.serve.leading import Leader

_NEWEST_LISTED = {  # later ones are unstable, for brokers, or need regular expressions of transactional ids
    "InitProducerId": 5, "AddPartitionsToTxn": 3, "ListTransactions": 1,
}  # fmt: skip
_OLDEST_LISTED = {"Produce": 0}  # librdkafka fetches only from a server that lists Produce; 0 as a broker lists it
_FIRST_WITH_FEATURES = 3  # ApiVersions
_MOST_STRUCTS = 20_000  # topics, partitions … of a request: each takes some kilobytes until it is answered


class Refused(Exception):
    """The request is answered by the end of the connection, as a broker does."""


class _Request(NamedTuple):
    """A decoded request. `address`: where its client reaches the server."""

    version: int
    body: dict[str, Any]
    address: Address
    client: Client


def _of_producers(leader: Leader, coordinator: GroupCoordinator) -> dict[str, Callable[[_Request], dict[str, Any] | None]]:
    transactions = leader.transactions
    transactions.offsets = coordinator
    return {
        "Produce": lambda one: leader.produce(one.version, one.body),
        "InitProducerId": lambda one: transactions.init_producer_id(one.version, one.body),
        "AddPartitionsToTxn": lambda one: transactions.add_partitions(one.version, one.body),
        "AddOffsetsToTxn": lambda one: transactions.add_offsets(one.version, one.body),
        "TxnOffsetCommit": lambda one: transactions.commit_offsets(one.body, one.client),
        "EndTxn": lambda one: transactions.end_txn(one.version, one.body),
    }


def _about_transactions(
    catalogue: Catalogue, now_ms: Callable[[], int], leader: Leader | None
) -> dict[str, Callable[[_Request], dict[str, Any]]]:
    read = StatesOnDisk(catalogue).read if leader is None else leader.transactions.states
    answers = TransactionAnswers(catalogue, now_ms, read)
    return {
        "ListTransactions": lambda one: answers.list_transactions(one.body),
        "DescribeTransactions": lambda one: answers.describe_transactions(one.body),
        "DescribeProducers": lambda one: answers.describe_producers(one.body),
    }


def _of_group(coordinator: GroupCoordinator, api: str, one: _Request) -> dict[str, Any]:
    return coordinator.answer(api, one.body, one.client)


class Answer(NamedTuple):
    """The pieces of a response: bytes, and FileSlices to be sent and closed. `size`: bytes of all of them."""

    api: str
    client_id: str
    pieces: list[Sized]
    size: int


class Apis:
    """Answers requests about a catalogue. May be used by several threads.

    wait    waits some ms, less if the server ends
    random  returns a positive int32
    """

    def __init__(
        self, catalogue: Catalogue, now_ms: Callable[[], int], wait: Callable[[int], None], random: Callable[[], int], *,
        groups: Iterable[StoredGroup] = (), leader: Leader | None = None,
    ) -> None:  # fmt: skip
        self._groups = coordinator = GroupCoordinator(catalogue, now_ms, groups)
        cluster = ClusterAnswers(catalogue)
        fetching = Fetching(catalogue, FetchSessions(random), now_ms, wait)
        self._answers: dict[str, Callable[[_Request], dict[str, Any] | None]] = {
            "Produce": lambda one: refused_produce(one.version, one.body),
            "Fetch": lambda one: fetching.answer(one.version, one.body),
            "ListOffsets": lambda one: list_offsets(catalogue, one.version, one.body),
            "OffsetForLeaderEpoch": lambda one: offsets_for_leader_epochs(catalogue, one.body),
            "Metadata": lambda one: cluster.metadata(one.version, one.body, one.address),
            "FindCoordinator": lambda one: cluster.find_coordinator(one.version, one.body, one.address),
            "ApiVersions": lambda one: self._api_versions(one.version),
            "DescribeConfigs": lambda one: describe_configs(catalogue, one.body),
            "DescribeLogDirs": lambda one: cluster.describe_log_dirs(one.body),
            "ListPartitionReassignments": lambda _one: cluster.list_partition_reassignments(),
            "DescribeCluster": lambda one: cluster.describe_cluster(one.body, one.address),
            "DescribeTopicPartitions": lambda one: cluster.describe_topic_partitions(one.body),
            "DescribeQuorum": lambda one: describe_quorum(catalogue, one.body),
            **_about_transactions(catalogue, now_ms, leader),
        }
        if leader is not None:
            self._answers |= _of_producers(leader, coordinator)
        for api in GROUP_APIS:
            self._answers[api] = partial(_of_group, coordinator, api)

    def answer(self, frame: memoryview, address: Address, host: str) -> Answer | None:
        """Answer a request; None: it wants no answer. Raises Refused for what is no request of Kafka 4.3.1.

        address  where the client reaches the server        host  where the client is
        """
        try:
            header, at = decode_request_header(frame)
            api = api_name(header.api_key)
            respond = self._answers.get(api)
            if respond is None:
                raise Refused(f"{api} is not served")
            if api == "ApiVersions" and header.api_version not in api_versions(header.api_key):
                return _encoded(api, header, _unsupported())
            asked, _ = decode_request_body(header, frame, at, _MOST_STRUCTS)
            client = Client(header.client_id or "", f"/{host}", header.api_version)
            body = respond(_Request(header.api_version, asked, address, client))
        except (SchemaError, Unanswered) as error:
            raise Refused(str(error)) from error
        if body is None:
            return None
        if api == "Produce" and not asked["acks"]:
            raise Refused("an error, and the producer wants no answer")
        return _encoded(api, header, body)

    def _api_versions(self, version: int) -> dict[str, Any]:
        known = [(key, api, api_versions(key)) for key, api in sorted((api_key(api), api) for api in self._answers)]
        keys = [{"apiKey": key, "minVersion": _OLDEST_LISTED.get(api, low), "maxVersion": _NEWEST_LISTED.get(api, high)}
                for key, api, (low, high) in known]  # fmt: skip
        answer: dict[str, Any] = {"errorCode": 0, "apiKeys": keys, "throttleTimeMs": 0}
        if version >= _FIRST_WITH_FEATURES:
            features = _FEATURES if "EndTxn" in self._answers else _FEATURES_READ_ONLY
            answer |= {
                "finalizedFeaturesEpoch": 0,
                "finalizedFeatures": [
                    {"name": name, "maxVersionLevel": level, "minVersionLevel": level} for name, level in features],
                "supportedFeatures": [{"name": name, "minVersion": 0, "maxVersion": level} for name, level in features],
            }  # fmt: skip
        return answer

    def close(self) -> None:
        """Answer the requests that wait for other members of their groups."""
        self._groups.close()


_FEATURES_READ_ONLY = (("group.version", 1),)
_FEATURES = (*_FEATURES_READ_ONLY, ("transaction.version", 2))


def _unsupported() -> dict[str, Any]:
    key = api_key("ApiVersions")
    low, high = api_versions(key)
    return {"errorCode": int(Error.UNSUPPORTED_VERSION), "apiKeys": [{"apiKey": key, "minVersion": low, "maxVersion": high}]}


def _encoded(api: str, header: RequestHeader, body: dict[str, Any]) -> Answer:
    try:
        pieces = encode_response(header, body)
    except BaseException:
        if api == "Fetch":
            close_slices(part for topic in body["responses"] for part in topic["partitions"])
        raise
    return Answer(api, header.client_id or "", pieces, sum(map(len, pieces)))
