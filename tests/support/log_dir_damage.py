"""Damage to log dirs that was tested with a real broker: each changes one thing in a copy of a clean pair of log dirs."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GARBAGE = b"\x00garbage\xff\nnot a checkpoint\n"
UNKNOWN_TOPIC = b"version: 0\ntopic_id: BBBBBBBBBBBBBBBBBBBBBA"


class Damage(NamedTuple):
    """One kind of damage.

    do      changes the directory with d0 and d1
    effect  name of the predicted Effect, None: nothing
    said    a part of the broker's message
    mended  does `recover` repair it?
    """

    do: Callable[[Path], object]
    effect: str | None
    said: str
    mended: bool = True


def _write(path: str, data: bytes = GARBAGE) -> Callable[[Path], object]:
    return lambda top: (top / path).write_bytes(data)


def _remove(path: str) -> Callable[[Path], object]:
    return lambda top: (top / path).unlink()


def _flip(path: str, at: int) -> Callable[[Path], object]:
    def flip(top: Path) -> None:
        data = bytearray((top / path).read_bytes())
        data[at] ^= 1
        (top / path).write_bytes(data)

    return flip


def _other_cluster(top: Path) -> None:
    path = top / "d1/meta.properties"
    path.write_text(path.read_text().replace("cluster.id=", "cluster.id=x"))


def _version_99(log_dir: str) -> Callable[[Path], object]:
    def change(top: Path) -> None:
        path = top / log_dir / "meta.properties"
        path.write_text(path.read_text().replace("version=1", "version=99"))

    return change


METADATA = "d0/__cluster_metadata-0"
DAMAGES = {
    "nothing": Damage(lambda _top: None, None, ""),
    "empty marker": Damage(_write("d0/.kafka_cleanshutdown", b""), None, ""),
    "garbage marker": Damage(_write("d0/.kafka_cleanshutdown"), None, ""),
    "no marker": Damage(_remove("d0/.kafka_cleanshutdown"), None, ""),
    "lost+found": Damage(lambda top: (top / "d1/lost+found").mkdir(), "STOPS", "'lost+found' is not in the form of", False),
    "backup": Damage(lambda top: (top / "d1/backup").mkdir(), "STOPS", "'backup' is not in the form of", False),
    "foo-bar": Damage(lambda top: (top / "d0/foo-bar").mkdir(), "STOPS", "'foo-bar' is not in the form of", False),
    ".hidden": Damage(lambda top: (top / "d0/.hidden").mkdir(), "STOPS", "'.hidden' is not in the form of", False),
    "a plain file": Damage(_write("d0/notes.txt"), None, ""),
    "leader epochs": Damage(
        _write("d0/tx-0/leader-epoch-checkpoint"), "STOPS", "Error while reading checkpoint file"),
    "topic id": Damage(_write("d0/tx-0/partition.metadata"), "STOPS", "Error while reading partition metadata file"),
    "recovery points": Damage(
        _write("d0/recovery-point-offset-checkpoint"), "STOPS", "Error while reading checkpoint file"),
    "log start offsets": Damage(
        _write("d1/log-start-offset-checkpoint"), "OFFLINE", "Error while reading checkpoint file"),
    "high watermarks": Damage(
        _write("d1/replication-offset-checkpoint"), "OFFLINE", "Error while reading checkpoint file"),
    "high watermarks beside the metadata log": Damage(
        _write("d0/replication-offset-checkpoint"), "STOPS", "Error while reading checkpoint file"),
    "leader epochs elsewhere": Damage(
        _write("d1/tx-1/leader-epoch-checkpoint"), "OFFLINE", "Error while reading checkpoint file"),
    "cleaner offsets": Damage(_write("d1/cleaner-offset-checkpoint"), "OFFLINE", "Error while reading checkpoint file"),
    "cleaner offsets beside the metadata log": Damage(
        _write("d0/cleaner-offset-checkpoint"), "STOPS", "Error while reading checkpoint file"),
    "snapshot": Damage(_flip("d0/idempotent-0/00000000000000000000.snapshot", 2), "WARNS", "Snapshot is corrupt"),
    "no topic id": Damage(_remove("d0/tx-0/partition.metadata"), "STRAYS", "treat it as a stray log."),
    "unknown topic id": Damage(
        _write("d0/tx-0/partition.metadata", UNKNOWN_TOPIC), "STRAYS", "does not exist in the metadata image.", False),
    "unknown partition": Damage(
        lambda top: (top / "d1/multi-5").mkdir(), "STRAYS", "treat it as a stray log.", False),
    "unknown partition of a known topic": Damage(
        lambda top: shutil.copytree(top / "d1/multi-1", top / "d1/multi-5"), "STRAYS", "does not exist in the metadata image.",
        False),
    "twice": Damage(
        lambda top: shutil.copytree(top / "d0/tx-0", top / "d1/tx-0"), "STOPS",
        "Duplicate log directories for tx-0 are found in both", False),
    "no meta.properties": Damage(_remove("d1/meta.properties"), "STOPS", "No `meta.properties` found in"),
    "a version that is none": Damage(_version_99("d1"), "OFFLINE", "Error while reading meta.properties file"),
    "a version that is none beside the metadata log": Damage(
        _version_99("d0"), "STOPS", "Error while reading meta.properties file"),
    "another cluster": Damage(_other_cluster, "STOPS", "Invalid cluster.id in:", False),
    "bootstrap": Damage(_write("d0/bootstrap.checkpoint"), "STOPS", ""),
    "quorum state": Damage(
        _write(f"{METADATA}/quorum-state"), "STOPS", "Error while reading the Quorum status from the file"),
    "a snapshot without an offset": Damage(
        _write("d1/small_segments-0/abc.snapshot", b""), "STOPS", 'NumberFormatException: For input string: "abc"'),
    "a snapshot with too large an offset": Damage(
        _write("d1/small_segments-0/99999999999999999999.snapshot", b""), "STOPS",
        'NumberFormatException: For input string: "99999999999999999999"'),
    "a snapshot without a name": Damage(
        _write("d0/tx-0/.snapshot"), "STOPS", 'NumberFormatException: For input string: ""'),
    "a log without an offset": Damage(
        lambda top: shutil.copy(top / "d1/small_segments-0/00000000000000000022.log", top / "d1/small_segments-0/abc.log"),
        "STOPS", 'NumberFormatException: For input string: "abc"'),
    "an index without an offset": Damage(
        _write("d1/small_segments-0/abc.index"), "STOPS", 'NumberFormatException: For input string: "abc"'),
    "a time index without an offset": Damage(
        _write("d1/small_segments-0/-.timeindex"), "STOPS", 'NumberFormatException: For input string: "-"'),
    "a transaction index without an offset": Damage(
        _write("d0/__cluster_metadata-0/abc.txnindex"), "STOPS", 'NumberFormatException: For input string: "abc"'),
    "a replacement without an offset": Damage(
        _write("d1/small_segments-0/abc.swap"), "STOPS", 'NumberFormatException: For input string: "abc"'),
    "a draft without an offset": Damage(
        _write("d1/small_segments-0/abc.log.cleaned"), "STOPS", 'NumberFormatException: For input string: "abc"'),
    "a deletion without an offset": Damage(_write("d1/small_segments-0/abc.deleted"), None, ""),
    "metadata": Damage(
        _flip(f"{METADATA}/00000000000000000000.log", 700), "LOSES_TOPICS", "Corruption found in segment 0, truncating to", False),
}  # fmt: skip


def clean_pair(own_corpus: Path, tmp_path: Path, name: str) -> Path:
    """A copy of the clean pair of log dirs with this damage."""
    top = tmp_path / "logs"
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean", top)
    if name == "snapshot":  # one that is there
        snapshot = max((top / "d0/idempotent-0").glob("*.snapshot"))
        data = bytearray(snapshot.read_bytes())
        data[2] ^= 1
        snapshot.write_bytes(data)
    else:
        DAMAGES[name].do(top)
    return top
