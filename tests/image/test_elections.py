"""Unclean elections by metadata logs, compared with what the controllers of the clusters logged."""

from __future__ import annotations

import json
import re

import pytest

from engine.files import ReadOnlyFiles
from engine.image.elections import unclean_elections
from tests.support.metadata_records import batch, change, leader_change, partition, topic, write_log, write_snapshot

_SAID = re.compile(r"UNCLEAN partition change for (\S+)-(\d+) with topic ID (\S+): .*leader: -?\d+ -> (\d+), "
                   r"(?:leaderRecoveryState: RECOVERED -> RECOVERING, )?leaderEpoch: \d+ -> (\d+)")  # fmt: skip


def _elections(directory):
    return list(unclean_elections(ReadOnlyFiles(), str(directory), pytest.fail))


def test_every_election_that_a_controller_called_unclean(cluster_corpus):
    states = [one for one in sorted(cluster_corpus.glob("forks*/truth.json")) if "brokers_said" in json.loads(one.read_text())]
    if not states:
        pytest.skip("this corpus does not tell what the controllers logged")
    for truth in states:
        said = {
            (found[3], found[1], int(found[2]), int(found[4]), int(found[5]))
            for one in json.loads(truth.read_text())["brokers_said"] if (found := _SAID.search(one["line"]))
        }  # fmt: skip
        ours = set()
        for directory in truth.parent.glob("*/n*/d0/__cluster_metadata-0"):
            ours |= {(one.topic_id, one.topic, one.partition, one.leader, one.leader_epoch) for one in _elections(directory)}
        assert ours == said


def test_no_election_was_unclean(own_cluster_corpus):
    assert _elections(own_cluster_corpus / "forks-second/1-forked/n2/d0/__cluster_metadata-0") == []


def test_place_and_time(own_cluster_corpus):
    first = _elections(own_cluster_corpus / "forks/2-forked-twice/n1/d0/__cluster_metadata-0")[0]
    assert (first.topic, first.leader, first.leader_epoch, first.offset, first.epoch) == ("kv-forked", 1, 3, 146, 7)
    assert (first.previous_leader, first.previous_isr, first.previous_elr, first.time_ms) == (-1, (), (2,), 1795422893720)


def test_the_end_of_a_reassignment_is_not_unclean(own_cluster_corpus):
    assert _elections(own_cluster_corpus / "ops/1-stopped/n1/d0/__cluster_metadata-0") == []


def test_what_damage_hides_is_known_and_the_rest_is_read(tmp_path):
    unclean = change(leader=2, isr=[2], leaderRecoveryState=1)
    log = write_log(tmp_path / "__cluster_metadata-0", leader_change(0, 1), batch(1, 1, topic(), partition(isr=[1])))
    write_log(log, batch(3, 1, change(leader=-1)), batch(4, 1, unclean), batch(5, 1, topic("other", "B" * 21 + "A")), base=3)
    found, hidden = [], []

    def read():
        found.clear()
        hidden.clear()
        elections = unclean_elections(ReadOnlyFiles(), str(log), found.append, lambda *offsets: hidden.append(offsets))
        return [one.offset for one in elections]

    assert (read(), found, hidden) == ([4], [], [])
    next(log.glob("*0.log")).write_bytes(b"")
    assert (read(), [one.code for one in found], hidden) == ([], ["metadata-gap"], [(0, None)])
    write_snapshot(log, 4, 1, topic(), partition(isr=[1], leader=-1, leaderEpoch=1, partitionEpoch=1))
    assert (read(), [one.code for one in found], hidden) == ([4], ["metadata-gap"], [(0, 4)])
    next(log.glob("*0.log")).unlink()
    assert (read(), found, hidden) == ([4], [], [])
    next(log.glob("*.checkpoint")).unlink()
    assert (read(), [one.code for one in found], hidden) == ([], ["metadata-gap"], [(3, None)])
