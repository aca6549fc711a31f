"""retain deletes nothing by a default: where the settings of a topic are not known, it refuses, and says how to make them known."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.files import ReadOnlyFiles
from tests.support.file_work import tree
from tests.support.run import kafkalog

NOW = "2027-01-01T00:00Z"  # all records are older than Kafka's default, 7 days
LEDGER = "d1/ledger-2"  # retention.ms=-1 in the metadata log, which is in d0
OWN_SETTINGS = "topics have their settings in __cluster_metadata, which is in none of the given log dirs"


@pytest.fixture
def node(own_cluster_corpus, tmp_path) -> Path:
    shutil.copytree(own_cluster_corpus / "ops/1-stopped/n1", tmp_path / "n1")
    return tmp_path / "n1"


def retain(*words: str | Path):
    return kafkalog("retain", "--clean-start", "--now", NOW, *map(str, words))


def logs(top: Path) -> set[str]:
    return {str(path.relative_to(top)) for path in top.rglob("*.log")}


def server(top: Path, *lines: str) -> Path:
    path = top / "server.properties"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def refused(*words: str | Path, setting: str = "retention.ms", why: str = OWN_SETTINGS) -> None:
    """`retain` refuses, with the reason, in a dry run too, and changes nothing."""
    place = Path(words[-1])
    before = tree(ReadOnlyFiles(), str(place))
    for also in ((), ("--dry-run",), ("--explain",)):
        done = retain(*also, *words)
        assert done.status == 4, done.out
        assert f"error[retention-unknown] {place}: {setting} of the topic is not known" in done.err
        assert why in done.err
        assert f"--config {setting}=" in done.err
        assert tree(ReadOnlyFiles(), str(place)) == before


def test_the_metadata_log_is_elsewhere(node):
    refused(node / LEDGER)


def test_the_log_dir_as_a_whole(node):
    before = logs(node)
    done = retain(node / "d1")
    assert (done.status, logs(node)) == (4, before - {one for one in before if one.startswith("d1/") and "-delete/" in one})
    assert done.err.count("error[retention-unknown]") > 5


def test_the_other_log_dir_was_named_too(node):
    before = logs(node / LEDGER)
    assert retain("--topic", "ledger", node / "d0", node / "d1").status == 0
    assert logs(node / LEDGER) == before


def test_server_properties_lead_to_the_metadata_log(node, tmp_path):
    config = server(tmp_path, f"log.dirs={node}/d0,{node}/d1", "log.retention.hours=1")
    before = tree(ReadOnlyFiles(), str(node / "d0"))
    assert retain("--config-file", config, "--topic", "ledger", node / "d1").status == 0
    assert len(logs(node / LEDGER)) == 2
    assert tree(ReadOnlyFiles(), str(node / "d0")) == before


def test_the_metadata_log_of_another_broker_does_not_count(node, own_cluster_corpus, tmp_path):
    other = own_cluster_corpus / "ops/1-stopped/n2"
    refused("--config-file", server(tmp_path, f"log.dirs={other}/d0,{other}/d1"), node / LEDGER)


def test_server_properties_alone_have_no_settings_of_topics(node, tmp_path):
    refused("--config-file", server(tmp_path, f"log.dirs={node}/d1", "log.retention.hours=1"), node / LEDGER)


def test_a_copied_partition(node, tmp_path):
    shutil.copytree(node / LEDGER, tmp_path / "copy/ledger-2")
    refused(tmp_path / "copy/ledger-2")


def test_the_brokers_default_is_not_known(own_corpus, tmp_path):
    """The topic has none of its own."""
    log_dir = tmp_path / "d0"
    shutil.copytree(own_corpus / "old/3.9.1/logs/clean", log_dir)
    refused(log_dir / "segments-0", why="the topic uses the broker's, which is in its server.properties")
    done = retain("--config-file", server(tmp_path, f"log.dirs={log_dir}", "log.retention.hours=1"), log_dir / "segments-0")
    assert (done.status, len(logs(log_dir / "segments-0"))) == (0, 1)


def test_a_damaged_metadata_log(node):
    directory = node / "d0/__cluster_metadata-0"
    for snapshot in directory.glob("*.checkpoint"):
        snapshot.unlink()
    first = min(directory.glob("*.log"))
    first.write_bytes(first.read_bytes()[:1000] + b"damage" + first.read_bytes()[1006:])
    refused("--config-file", server(node, f"log.dirs={node}/d0,{node}/d1"), node / LEDGER,
            why="__cluster_metadata is damaged (crc-mismatch); `kafkalog recover` repairs it")


@pytest.mark.parametrize("place", ["d1", LEDGER])
def test_the_brokers_default_compacts_nothing(node, tmp_path, place):
    config = server(tmp_path, f"log.dirs={node}/d1", "log.cleanup.policy=compact")
    words = ("compact", "--clean-start", "--force", "--now", NOW, "--config-file", str(config), str(node / place))
    before = tree(ReadOnlyFiles(), str(node / LEDGER))
    done = kafkalog(*words)
    assert (done.status, tree(ReadOnlyFiles(), str(node / LEDGER))) == (4 if place == LEDGER else 0, before), done.out
    assert b"--config cleanup.policy=compact" in done.out
    assert b"  compacted (offsets 0 to " in kafkalog(*words, "--config", "cleanup.policy=compact").out


@pytest.mark.parametrize("setting", ["retention.ms=1", "retention.ms=-1"])
def test_the_user_decides(node, setting):
    before = logs(node / LEDGER)
    assert retain("--config", setting, node / LEDGER).status == 0
    assert (logs(node / LEDGER) == before) is (setting == "retention.ms=-1")


def test_a_size_leaves_the_time_unknown(node):
    refused("--config", "retention.bytes=1", node / LEDGER)
    assert retain("--config", "retention.bytes=1", "--config", "retention.ms=-1", node / LEDGER).status == 0
    assert len(logs(node / LEDGER)) == 1


@pytest.mark.parametrize("named", ["d1/__consumer_offsets-0", "d1/stream-in-1"])
def test_what_may_be_compacted_has_no_retention(node, named):
    """An internal topic; and one with a line of the cleaner."""
    (node / "d1/cleaner-offset-checkpoint").write_text("0\n1\nstream-in 1 3\n")
    refused("--config", "retention.ms=1", node / named, setting="cleanup.policy", why="it may be compacted")
    assert retain("--config", "retention.ms=1", "--config", "cleanup.policy=compact", node / named).status == 0


def test_free_spares_what_nothing_is_known_of(node):
    """A compacted topic that the cleaner has not reached yet looks like any other."""
    before = logs(node / LEDGER)
    done = retain("--free", "1000TiB", "--as-much-as-possible", node / LEDGER)
    assert logs(node / LEDGER) == before
    assert "ledger may be compacted, as cleanup.policy is not known" in done.out.decode() + done.err
    retain("--free", "1000TiB", "--as-much-as-possible", "--config", "cleanup.policy=delete", node / LEDGER)
    assert logs(node / LEDGER) < before


def test_a_log_dir_of_a_broker_with_zookeeper(node, tmp_path):
    log_dir = tmp_path / "old"
    shutil.copytree(node / LEDGER, log_dir / "ledger-2")
    (log_dir / "ledger-2/partition.metadata").unlink()
    (log_dir / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=x\n")
    refused(log_dir / "ledger-2", why="the log dir has no settings of topics")
    done = retain("--config-file", server(tmp_path, f"log.dirs={log_dir}", "log.retention.hours=1"), log_dir / "ledger-2")
    assert done.status == 0
    assert len(logs(log_dir)) == 1


def test_where_nothing_is_due_nothing_is_refused(node):
    done = kafkalog("retain", "--clean-start", "--now", "0", str(node / LEDGER))
    assert done.status == 0, done.err
