"""The state of a partition in the metadata. Mirrors PartitionRegistration."""

from __future__ import annotations

from typing import Any, NamedTuple

_UNCHANGED_LEADER = -2  # LeaderConstants.NO_LEADER_CHANGE
MIGRATING = "A" * 22  # DirectoryId: the log dir is not known yet
RESERVED_DIRECTORIES = {MIGRATING: "migrating", "A" * 21 + "Q": "unassigned", "A" * 21 + "g": "lost"}
RECOVERED, RECOVERING = 0, 1  # LeaderRecoveryState: after an unclean election a leader is RECOVERING
_UNCHANGED_STATE = -1


class PartitionState(NamedTuple):
    """A partition. replicas, isr, …: broker ids; directories: the id of the log dir of each replica."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    leader: int
    leader_recovery_state: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[str, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]

    @classmethod
    def of(cls, data: dict[str, Any]) -> PartitionState:
        """The state by a PartitionRecord. Raises ValueError."""
        replicas = tuple(data["replicas"])
        return cls(
            replicas, tuple(data["isr"]), tuple(data["removingReplicas"]), tuple(data["addingReplicas"]), data["leader"],
            data.get("leaderRecoveryState", RECOVERED), data["leaderEpoch"], data["partitionEpoch"],
            _directories(data.get("directories"), replicas), tuple(data.get("eligibleLeaderReplicas") or ()),
            tuple(data.get("lastKnownElr") or ()),
        )  # fmt: skip

    def changed(self, data: dict[str, Any]) -> PartitionState:
        """The state after a PartitionChangeRecord. Raises ValueError."""

        def new(name: str, now: tuple[int, ...]) -> tuple[int, ...]:
            return now if data.get(name) is None else tuple(data[name])

        replicas, leader = new("replicas", self.replicas), data.get("leader", _UNCHANGED_LEADER)
        is_elected, state = leader != _UNCHANGED_LEADER, data.get("leaderRecoveryState", _UNCHANGED_STATE)
        directories = self.directories if data.get("directories") is None else data["directories"]
        return PartitionState(
            replicas, new("isr", self.isr), new("removingReplicas", self.removing_replicas),
            new("addingReplicas", self.adding_replicas), leader if is_elected else self.leader,
            self.leader_recovery_state if state == _UNCHANGED_STATE else state, self.leader_epoch + is_elected,
            self.partition_epoch + 1, _directories(directories, replicas), new("eligibleLeaderReplicas", self.elr),
            new("lastKnownElr", self.last_known_elr),
        )  # fmt: skip

    def without_elr(self) -> PartitionState:
        """The state after a ClearElrRecord."""
        if not self.elr and not self.last_known_elr:
            return self
        return self._replace(elr=(), last_known_elr=(), partition_epoch=self.partition_epoch + 1)

    def is_unclean(self, data: dict[str, Any]) -> bool:
        """Does this PartitionChangeRecord elect a leader that may lack acknowledged records?

        It says so by its leaderRecoveryState. Before metadata version 3.2 there was none: the leader is not in the ISR then. A
        record that ends a reassignment may add its leader to the ISR, too (AlterPartition).
        """
        leader = data.get("leader", _UNCHANGED_LEADER)
        if leader < 0:
            return False
        if data.get("leaderRecoveryState") == RECOVERING:
            return True
        is_reassigned = data.get("addingReplicas") == [] and leader in self.adding_replicas
        return leader not in self.isr and leader not in self.elr and not is_reassigned

    def fields(self) -> dict[str, Any]:
        """The fields of a PartitionRecord, without those that identify it."""
        found: dict[str, Any] = {
            "replicas": list(self.replicas), "isr": list(self.isr), "removingReplicas": list(self.removing_replicas),
            "addingReplicas": list(self.adding_replicas), "leader": self.leader, "leaderEpoch": self.leader_epoch,
            "partitionEpoch": self.partition_epoch, "directories": list(self.directories),
        }  # fmt: skip
        optional = {
            "leaderRecoveryState": self.leader_recovery_state, "eligibleLeaderReplicas": list(self.elr),
            "lastKnownElr": list(self.last_known_elr),
        }  # fmt: skip
        return {**found, **{name: value for name, value in optional.items() if value}}


def _directories(given: Any, replicas: tuple[int, ...]) -> tuple[str, ...]:
    """The directories of the replicas; if there are none, they are MIGRATING. Raises ValueError."""
    if not given:
        return (MIGRATING,) * len(replicas)
    if len(given) != len(replicas):
        raise ValueError("The lengths for replicas and directories do not match.")
    return tuple(given)
