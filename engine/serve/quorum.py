"""DescribeQuorum: the voters of the metadata log, as far as the log dirs know them. Mirrors KafkaRaftClient and LeaderState.

The module stands alone: no other answer is about the metadata log, whose records are never served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from engine.checkpoint.identity import decode_quorum_state, read_identity
from engine.discovery.names import METADATA_TOPIC, FileKind
from engine.errors import KafkalogError
from engine.protocol.error_codes import Error
from engine.protocol.layout import ZERO_ID

if TYPE_CHECKING:
    from engine.checkpoint.identity import QuorumState
    from engine.serve.catalogue import Catalogue

_UNKNOWN = -1  # as a leader answers about a voter that did not fetch yet


class _Voter(NamedTuple):
    id: int
    directory_id: str
    endpoints: list[dict[str, Any]]


def describe_quorum(catalogue: Catalogue, body: dict[str, Any]) -> dict[str, Any]:
    """Answer DescribeQuorum. The log end of other nodes is not known; all is as of the start of the server.

    leaderId is the last leader that the node knew. The high watermark is known only if the node is the only voter.
    """
    wanted = {(topic["topicName"], one["partitionIndex"]) for topic in body["topics"] for one in topic["partitions"]}
    voters = _voters(catalogue)
    topics: dict[str, list[dict[str, Any]]] = {}
    for name, index in sorted(wanted):
        is_metadata = (name, index) == (METADATA_TOPIC, 0)
        topics.setdefault(name, []).append(_partition(catalogue, voters, index, is_metadata=is_metadata))
    return {
        "errorCode": 0, "errorMessage": "",
        "topics": [{"topicName": name, "partitions": partitions} for name, partitions in topics.items()],
        "nodes": [{"nodeId": one.id, "listeners": one.endpoints} for one in voters if one.endpoints],
    }  # fmt: skip


def _partition(catalogue: Catalogue, voters: list[_Voter], index: int, *, is_metadata: bool) -> dict[str, Any]:
    answer = {
        "partitionIndex": index, "errorCode": 0, "errorMessage": "", "leaderId": -1, "leaderEpoch": -1,
        "highWatermark": _UNKNOWN, "currentVoters": [], "observers": [],
    }  # fmt: skip
    metadata, state = catalogue.cluster.metadata, _quorum_state(catalogue)
    if metadata is None or not is_metadata:
        return answer | {"errorCode": int(Error.UNKNOWN_TOPIC_OR_PARTITION)}
    if state is None or state.leader_id < 0:
        return answer | {"errorCode": int(Error.LEADER_NOT_AVAILABLE), "errorMessage": "quorum-state does not name a leader"}
    own = catalogue.cluster.node_id
    return answer | {
        "leaderId": state.leader_id, "leaderEpoch": state.leader_epoch,
        "highWatermark": metadata.end_offset if [one.id for one in voters] == [own] else _UNKNOWN,
        "currentVoters": [
            {"replicaId": one.id, "replicaDirectoryId": one.directory_id, "lastFetchTimestamp": -1, "lastCaughtUpTimestamp": -1,
             "logEndOffset": metadata.end_offset if one.id == own else _UNKNOWN} for one in voters],
    }  # fmt: skip


def _voters(catalogue: Catalogue) -> list[_Voter]:
    """Return the voters: of the metadata log (KIP-853), else the static ones in quorum-state."""
    metadata, state = catalogue.cluster.metadata, _quorum_state(catalogue)
    if metadata is not None and metadata.voters is not None:
        return [_Voter(one["voterId"], one["voterDirectoryId"], one["endpoints"]) for one in metadata.voters]
    return [] if state is None else [_Voter(one, ZERO_ID, []) for one in state.current_voters or ()]


def _quorum_state(catalogue: Catalogue) -> QuorumState | None:
    """Return the quorum-state beside the metadata log; None: there is none, or it is unreadable."""
    try:
        path = f"{catalogue.cluster.metadata_dir}/{FileKind.QUORUM_STATE.value}"
        is_there = catalogue.cluster.metadata_dir is not None and catalogue.files.exists(path)
        return read_identity(catalogue.files, path, decode_quorum_state).value if is_there else None
    except KafkalogError as error:
        catalogue.note(error)
        return None
