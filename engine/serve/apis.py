"""Requests to answers: which APIs and versions are served, and who answers them. Mirrors KafkaApis and ApiVersionsResponse."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.protocol.frames import API_VERSIONS, decode_request, decode_request_header, encode_response
from engine.protocol.messages import api_name, api_versions
from engine.schema.wire import SchemaError
from engine.serve.cluster import ClusterAnswers, refused_produce
from engine.serve.configs import describe_configs
from engine.serve.fetching import Fetching, FetchSessions, close_slices, list_offsets
from engine.serve.group_common import Client as GroupClient
from engine.serve.groups import GroupCoordinator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sized

    from engine.log.fetch.stored_groups import StoredGroup
    from engine.protocol.frames import RequestHeader
    from engine.serve.catalogue import Catalogue
    from engine.serve.cluster import Address
    from engine.serve.leading import Leader

_PRODUCE, _FETCH, _LIST_OFFSETS, _METADATA = 0, 1, 2, 3
_FIND_COORDINATOR, _DESCRIBE_CONFIGS, _DESCRIBE_LOG_DIRS, _LIST_REASSIGNMENTS = 10, 32, 35, 46
_DESCRIBE_CLUSTER, _DESCRIBE_TOPIC_PARTITIONS = 60, 75
_OF_GROUPS = {
    8: "OffsetCommit", 9: "OffsetFetch", 11: "JoinGroup", 12: "Heartbeat", 13: "LeaveGroup", 14: "SyncGroup",
    15: "DescribeGroups", 16: "ListGroups", 68: "ConsumerGroupHeartbeat", 69: "ConsumerGroupDescribe",
}  # fmt: skip
_INIT_PRODUCER_ID, _ADD_PARTITIONS, _END_TXN = 22, 24, 26
_NEWEST_LISTED = {_INIT_PRODUCER_ID: 5, _ADD_PARTITIONS: 3}  # later ones are unstable, or for brokers
_OLDEST_LISTED = {_PRODUCE: 0}  # librdkafka fetches only from a server that lists Produce; 0 as a broker lists it
_UNSUPPORTED_VERSION = 35


class Refused(Exception):
    """The request is answered by the end of the connection, as a broker does."""


class Client(NamedTuple):
    """A connection's client. `address`: where it reaches the server; `host`: where it is; `id`: of the present request."""

    address: Address
    host: str
    id: str = ""


def _of_producers(leader: Leader) -> dict[int, Callable[[int, dict[str, Any], Client], dict[str, Any] | None]]:
    transactions = leader.transactions
    return {
        _PRODUCE: lambda version, body, _client: leader.produce(version, body),
        _INIT_PRODUCER_ID: lambda _version, body, _client: transactions.init_producer_id(body),
        _ADD_PARTITIONS: lambda _version, body, _client: transactions.add_partitions(body),
        _END_TXN: lambda version, body, _client: transactions.end_txn(version, body),
    }


def _of_groups(
    coordinator: GroupCoordinator, name: str, version: int, body: dict[str, Any], client: Client
) -> dict[str, Any]:  # fmt: skip
    return coordinator.answer(name, body, GroupClient(client.id, f"/{client.host}", version))


class Answer(NamedTuple):
    """The pieces of a response: bytes, and FileSlices to be sent and closed. `size`: bytes of all of them."""

    api: str
    client_id: str
    pieces: list[Sized]
    size: int


class Apis:
    """Answers requests about a catalogue. May be used by several threads.

    wait    waits some ms, less if the server ends
    random  a positive int32
    """

    def __init__(
        self, catalogue: Catalogue, now_ms: Callable[[], int], wait: Callable[[int], None], random: Callable[[], int], *,
        groups: Iterable[StoredGroup] = (), leader: Leader | None = None,
    ) -> None:  # fmt: skip
        self._groups = coordinator = GroupCoordinator(catalogue, now_ms, groups)
        cluster = ClusterAnswers(catalogue, coordinates_transactions=leader is not None)
        fetching = Fetching(catalogue, FetchSessions(random), now_ms, wait)
        self._answers: dict[int, Callable[[int, dict[str, Any], Client], dict[str, Any] | None]] = {
            _PRODUCE: lambda version, body, _client: refused_produce(version, body),
            _FETCH: lambda version, body, _client: fetching.answer(version, body),
            _LIST_OFFSETS: lambda version, body, _client: list_offsets(catalogue, version, body),
            _METADATA: lambda _version, body, client: cluster.metadata(body, client.address),
            _FIND_COORDINATOR: lambda version, body, client: cluster.find_coordinator(version, body, client.address),
            API_VERSIONS: lambda version, _body, _client: self._api_versions(version),
            _DESCRIBE_CONFIGS: lambda _version, body, _client: describe_configs(catalogue, body),
            _DESCRIBE_LOG_DIRS: lambda _version, body, _client: cluster.describe_log_dirs(body),
            _LIST_REASSIGNMENTS: lambda _version, _body, _client: cluster.list_partition_reassignments(),
            _DESCRIBE_CLUSTER: lambda _version, body, client: cluster.describe_cluster(body, client.address),
            _DESCRIBE_TOPIC_PARTITIONS: lambda _version, body, _client: cluster.describe_topic_partitions(body),
        }
        if leader is not None:
            self._answers |= _of_producers(leader)
        for key, name in _OF_GROUPS.items():
            self._answers[key] = partial(_of_groups, coordinator, name)

    def answer(self, frame: memoryview, client: Client) -> Answer | None:
        """Answer a request; None: it wants no answer. Raises Refused for what is no request of Kafka 4.3.1."""
        try:
            header, _ = decode_request_header(frame)
            respond = self._answers.get(header.api_key)
            if respond is None:
                raise Refused(f"API {header.api_key}")
            if header.api_key == API_VERSIONS and header.api_version not in api_versions(API_VERSIONS):
                return _encoded(header, _unsupported())
            body = respond(header.api_version, decode_request(frame).body, client._replace(id=header.client_id or ""))
        except SchemaError as error:
            raise Refused(str(error)) from error
        if body is None:
            return None
        if header.api_key == _PRODUCE and not decode_request(frame).body["acks"]:
            raise Refused("an error that the producer does not want to know")
        return _encoded(header, body)

    def _api_versions(self, version: int) -> dict[str, Any]:
        keys = [{"apiKey": key, "minVersion": _OLDEST_LISTED.get(key, low), "maxVersion": _NEWEST_LISTED.get(key, high)}
                for key, (low, high) in ((key, api_versions(key)) for key in sorted(self._answers))]  # fmt: skip
        answer: dict[str, Any] = {"errorCode": 0, "apiKeys": keys, "throttleTimeMs": 0}
        if version >= 3:
            answer |= {"finalizedFeaturesEpoch": 0, "finalizedFeatures": _FEATURES, "supportedFeatures": _SUPPORTED}
        return answer

    def close(self) -> None:
        """Answer the requests that wait for other members of their groups."""
        self._groups.close()


_FEATURES = [{"name": "group.version", "maxVersionLevel": 1, "minVersionLevel": 1}]
_SUPPORTED = [{"name": "group.version", "minVersion": 0, "maxVersion": 1}]


def _unsupported() -> dict[str, Any]:
    low, high = api_versions(API_VERSIONS)
    return {"errorCode": _UNSUPPORTED_VERSION, "apiKeys": [{"apiKey": API_VERSIONS, "minVersion": low, "maxVersion": high}]}


def _encoded(header: RequestHeader, body: dict[str, Any]) -> Answer:
    try:
        pieces = encode_response(header, body)
    except BaseException:
        if header.api_key == _FETCH:
            close_slices(part for topic in body["responses"] for part in topic["partitions"])
        raise
    name = api_name(header.api_key) or str(header.api_key)
    return Answer(name, header.client_id or "", pieces, sum(map(len, pieces)))
