"""`kafkalog diff` finds the forks of real clusters, and the acknowledged records that consumers could not read afterwards."""

from __future__ import annotations

import json
import re
import shutil
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from tests.support.json_output import all_objects, of_type
from tests.support.run import kafkalog

if TYPE_CHECKING:
    from pathlib import Path


def diff(*words: object, status: int | None = None) -> list[dict]:
    done = kafkalog("diff", "--format", "jsonl", *map(str, words))
    assert status is None or done.status == status, done.err
    return all_objects(done.out)


def text(*words: object) -> str:
    return kafkalog("diff", *map(str, words)).out.decode()


def name_of(one: dict) -> str:
    return f"{one['topic']}-{one['partition']}"


def families(top: Path) -> list[Path]:
    found = sorted(path.parent for path in top.glob("*/diff.json"))
    assert found, "the corpus has no forks: nothing would be compared"
    return found


@pytest.fixture
def forked(own_cluster_corpus, tmp_path):
    """Copies of a forked partition of nodes 1 and 2, in log dirs."""
    for node in ("n1", "n2"):
        source = own_cluster_corpus / "forks/2-forked-twice" / node / "d0"
        (tmp_path / node).mkdir()
        shutil.copytree(source / "forked-0", tmp_path / node / "forked-0")
        shutil.copy(source / "replication-offset-checkpoint", tmp_path / node)
    return tmp_path


# ---- real clusters


def test_forks_are_where_the_batches_and_the_epochs_part(cluster_corpus):
    seen = 0
    for family in families(cluster_corpus):
        for state, partitions in json.loads((family / "diff.json").read_text()).items():
            objects = diff(family / state)
            pairs = {(name_of(one), " ".join(one["sides"])): one for one in of_type(objects, "comparison")}
            only = {(name_of(one), one["side"], one["not_in"]): one for one in of_type(objects, "only")}
            lineages = {(name_of(one), one["side"]): one for one in of_type(objects, "lineage")}
            for name, (pair, truth) in ((name, one) for name, pairs_of in partitions.items() for one in pairs_of.items()):
                found, (one, other) = pairs[name, pair], pair.split()
                assert (found["verdict"], found["common_end"]) == (truth["verdict"], truth["fork_offset"]), (state, name, pair)
                assert found["truncates_to"] == [truth[f"{one}_follows_{other}"]["truncates_to"], truth[f"{other}_follows_{one}"]["truncates_to"]]
                for side, lacking in ((one, other), (other, one)):
                    rest, expected = only.get((name, side, lacking)), truth["only"][side]
                    assert (0 if rest is None else rest["batches"]) == expected["batches"]
                    assert (0 if rest is None else rest["records"]) == expected["records"]
                    assert ([] if rest is None else rest["epochs"]) == expected["epochs"]
                    assert rest is None or (rest["from"], rest["to"]) == (expected["from"], expected["to"])
                    assert lineages[name, side]["epochs"] == truth["epochs"][side]
                seen += 1
    assert seen > 30


def acknowledged(family: Path, state: str) -> tuple[list[str], dict[str, set]]:
    """The acknowledgements before a state was kept, and of each partition those that consumers did not get afterwards."""
    truth = json.loads((family / "truth.json").read_text())[state]["after_all_came_back"]
    lost = {topic: {(one["offset"], one["key"]) for one in one_topic.get("lost", ())} for topic, one_topic in truth.items()}
    lines = [line for path in sorted((family / "acks").glob("*.jsonl")) for line in path.read_text().splitlines()]
    if state == "1-forked" and family.name == "forks":  # the files go on: the first phases are those of the producers a, b and c
        lines = [line for line in lines if json.loads(line)["producer"].rsplit("-", 1)[1] in "abc"]
    return lines, lost


@pytest.mark.parametrize("state", ["1-forked", "2-forked-twice"])
def test_lost_acknowledged_records_are_those_that_consumers_did_not_get(cluster_corpus, tmp_path, state):
    """One of the replicas led when all nodes were back: what it lacks is what consumers lost."""
    seen = 0
    for family in (path for path in families(cluster_corpus) if (path / state).is_dir()):
        lines, lost = acknowledged(family, state)
        acks = tmp_path / "acks.jsonl"
        acks.write_text("\n".join(lines))
        found = defaultdict(set)
        objects = diff(family / state, "--acks", acks)
        sides = {(name_of(one), one["side"]) for one in of_type(objects, "lineage")}
        for one in of_type(objects, "lost"):
            found[name_of(one), one["side"]].add((one["offset"], one["key"]))
        for topic, expected in lost.items():
            own = [found[key] for key in sorted(sides) if key[0].rsplit("-", 1)[0] == topic]
            assert expected in own or not expected, (state, topic)
            seen += len(expected)
    assert seen > 20


def test_unclean_elections_are_those_that_the_controllers_reported(cluster_corpus):
    told = {family: json.loads((family / "truth.json").read_text()).get("brokers_said") for family in families(cluster_corpus)}
    if not any(told.values()):
        pytest.skip("this corpus does not tell what the controllers logged")
    for family in (family for family, lines in told.items() if lines):
        said = defaultdict(list)
        for line in told[family]:
            match = re.search(r"UNCLEAN partition change for (\S+) with.*leader: -?\d+ -> (\d+)", line["line"])
            if match and int(match[2]) not in said[match[1]][-1:]:  # several controllers repeat it
                said[match[1]].append(int(match[2]))
        last = max(path for path in family.iterdir() if (path / "n1").is_dir())
        found = defaultdict(list)
        for one in of_type(diff(last), "unclean-election"):
            found[name_of(one)].append(one["leader"])
        for name, leaders in said.items():
            assert set(leaders) <= set(found[name]), name
        assert set(found) <= set(said)


def test_unclean_elections_have_time_and_epoch(own_cluster_corpus):
    top = own_cluster_corpus / "forks/2-forked-twice"
    found = of_type(diff(top / "n1", top / "n2", "--topic", "forked"), "unclean-election")
    assert [(one["leader"], one["leader_epoch"], one["time_iso"]) for one in found] == [
        (1, 3, "2026-11-23T08:34:53.720Z"), (2, 5, "2026-11-23T08:36:07.276Z"), (1, 7, "2026-11-23T08:37:17.450Z"),
    ]  # fmt: skip


# ---- what is printed


def test_the_text_of_a_fork(forked):
    out = text(forked / "n1/forked-0", forked / "n2/forked-0")
    assert out.startswith("forked-0: FORKED at offset 18 (offsets 0 to 17 in common, epoch 0)\n")
    assert "a follower truncates to 18" in out
    assert "n1: high watermark 38 (checkpoint): at least 20 records were readable, lost if n2 leads" in out


@pytest.mark.parametrize("by", ["batch", "record"])
def test_the_parts_of_what_only_one_has_add_up(forked, by):
    paths = forked / "n1/forked-0", forked / "n2/forked-0"
    whole = {one["side"]: one for one in of_type(diff(*paths), "only")}
    parts = of_type(diff("--by", by, *paths), "only")
    for side, one in whole.items():
        own = [part for part in parts if part["side"] == side]
        assert sum(part["records"] for part in own) == one["records"]
        assert sum(part["readable_records"] for part in own) == one["readable_records"]
        assert (own[0]["from"], own[-1]["to"]) == (one["from"], one["to"])
        assert len(own) == (one["batches"] if by == "batch" else one["records"])
    if by == "record":
        assert [part["key"] for part in parts if part["side"] == "n2"] == [f"forked-0-e-{number}" for number in range(3)]


def test_what_was_exported_is_appended_to_the_other_replica(forked):
    one, other, saved = forked / "n1/forked-0", forked / "n2/forked-0", forked / "saved"
    exported = of_type(diff("--export", saved, one, other), "saved-file")
    assert sorted(path.name for path in saved.iterdir()) == [f"forked-0.{side}.{form}" for side in ("n1", "n2") for form in ("batches", "jsonl")]
    assert [found["entries"] for found in exported] == [6, 24, 1, 3]
    assert kafkalog("truncate", "--clean-start", "--to", "18", "-y", str(other)).status in (0, 1)
    raw = ("--follower", "--input-format", "raw", "--input", str(saved / "forked-0.n1.batches"))
    assert kafkalog("append", *raw, str(other)).status == 0
    assert of_type(diff(one, other, status=0), "comparison")[0]["verdict"] == "same"
    new = forked / "new/lines-0"
    new.parent.mkdir()
    assert kafkalog("append", "--create", "--input", str(saved / "forked-0.n1.jsonl"), str(new)).status == 0
    fields = ("key", "value", "timestamp")
    fetched = [of_type(all_objects(kafkalog("fetch", "--format", "jsonl", *words).out), "fetched-record")
               for words in ((str(new),), ("--offset", "18", str(one)))]  # fmt: skip
    assert [[record[name] for name in fields] for record in fetched[0]] == [[record[name] for name in fields] for record in fetched[1]]


def test_export_replaces_no_file(forked):
    one, other, saved = forked / "n1/forked-0", forked / "n2/forked-0", forked / "saved"
    diff("--export", saved, one, other, status=4)
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    (saved / "forked-0.n1.batches").unlink()
    done = kafkalog("diff", "--export", str(saved), str(one), str(other))
    assert "exists already" in done.err
    assert {path.name: path.read_bytes() for path in saved.iterdir() if path.name in before} == {
        name: data for name, data in before.items() if name != "forked-0.n1.batches"}  # fmt: skip


@pytest.mark.parametrize("place", ["n1", "n1/saved/deeper", "n2/forked-0", "link"])
def test_export_writes_into_no_log_dir(forked, place):
    """A broker does not start on a log dir with a directory that is no partition."""
    (forked / "link").symlink_to(forked / "n2")
    before = sorted(forked.rglob("*"))
    done = kafkalog("diff", "--export", str(forked / place), str(forked / "n1"), str(forked / "n2"))
    assert (done.status, "which holds logs" in done.err) == (2, True)
    assert sorted(forked.rglob("*")) == before


# ---- which partitions


def test_partitions_that_only_one_node_has_are_listed(forked):
    shutil.copytree(forked / "n1/forked-0", forked / "n1/alone-0")
    out = text(forked / "n1", forked / "n2")
    assert out.endswith("only in n1: alone-0\n")
    [single] = [one for one in of_type(diff(forked / "n1", forked / "n2"), "comparison") if one["verdict"] == "single"]
    assert (single["sides"], name_of(single)) == (["n1"], "alone-0")


def test_a_side_without_the_asked_partition_is_an_answer(forked):
    shutil.rmtree(forked / "n1/forked-0")
    done = kafkalog("diff", "--topic", "forked", str(forked / "n1"), str(forked / "n2"))
    assert (done.status, done.out, done.err) == (4, b"only in n2: forked-0\n", "")


def test_another_topic_of_the_same_name_is_not_compared(forked):
    path = forked / "n2/forked-0/partition.metadata"
    path.write_text(re.sub(r"topic_id: .*", "topic_id: AAAAAAAAAAAAAAAAAAAAAw", path.read_text()))
    objects = diff(forked / "n1", forked / "n2", status=4)
    assert [one["verdict"] for one in of_type(objects, "comparison")] == ["other-topic"]
    assert "have other topics of this name" in text(forked / "n1", forked / "n2")


@pytest.mark.parametrize(("words", "said"), [
    (("n1/forked-0",), "nothing to compare with"), (("n1", "nowhere"), "nowhere"), (("n1", "n1/replication-offset-checkpoint"), "n1/"),
    (("n1", "n2", "--topic", "unknown"), "no partition of topic unknown"), (("n1", "n2", "--acks", "n1"), "n1"),
])  # fmt: skip
def test_wrong_paths(forked, words, said):
    done = kafkalog("diff", *(str(forked / word) if word.startswith("n") else word for word in words))
    assert done.status in (2, 8)
    assert said in done.err


@pytest.mark.parametrize("line", ['{"partition": "forked-0", "offset": "4"}', "[1]", '{"partition": "forked", "offset": 4}', "{", '{"offset": 4}',
                                  '{"partition": "forked-0", "offset": -1}', '{"partition": "forked-0", "offset": 1, "key_b64": "*"}'])  # fmt: skip
def test_a_line_that_is_no_acknowledgement(forked, line):
    (forked / "acks").write_text(f'{{"partition": "forked-0", "offset": 1}}\n{line}\n')
    done = kafkalog("diff", "--acks", str(forked / "acks"), str(forked / "n1"), str(forked / "n2"))
    assert "line 2 is not an acknowledged record" in done.err


# ---- bad bytes


@pytest.mark.parametrize("content", [b"", b"no batch " * 300, bytes(3000)], ids=["empty", "text", "zeros"])
def test_a_log_below_its_high_watermark_has_lost_records(forked, content):
    """Without a sound batch it has no record, and is no follower that lags."""
    (forked / "n1/forked-0/00000000000000000000.log").write_bytes(content)
    done = kafkalog("diff", str(forked / "n1"), str(forked / "n2"))
    assert done.status == 4
    assert "  n1: high watermark 38 is beyond its end 0: it lost records\n" in done.out.decode()
    assert "[checkpoint-beyond-log]" in done.err
    assert ("[torn-tail]" in done.err or "[zero-tail]" in done.err) == bool(content)


def test_a_malformed_checkpoint_is_reported(forked):
    (forked / "n1/replication-offset-checkpoint").write_text("garbage")
    done = kafkalog("diff", str(forked / "n1"), str(forked / "n2"))
    assert (done.status, done.err.count("[file-malformed]")) == (4, 1)


def test_any_byte_of_a_file_may_be_wrong(forked):
    """No damage of one side stops the comparison with a traceback."""
    two = forked / "n2"
    files = [*sorted((two / "forked-0").iterdir()), two / "replication-offset-checkpoint"]
    for path in files:
        before = path.read_bytes()
        for data in (b"", b"\xff" * max(len(before), 8), before[: len(before) // 2], before + b"\0" * 100, bytes(reversed(before))):
            path.write_bytes(data)
            diff(forked / "n1", two)
        for at in range(0, len(before), max(1, len(before) // 12)):
            path.write_bytes(before[:at] + bytes([before[at] ^ 0x55]) + before[at + 1 :])
            diff(forked / "n1", two)
        path.write_bytes(before)
