"""The sides of a comparison: partitions, log dirs or nodes that the user names; and the partitions that they have in common."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.identity import read_topic_id
from engine.discovery.names import PartitionKind
from engine.discovery.paths import unreadable
from engine.errors import UnreadableFile, UsageError
from engine.log.fetch.replicas import best_replica, read_best_replica
from engine.log.logdir.cluster_metadata import METADATA_DIR
from engine.log.logdir.log_dirs import choose_partitions, find_log_dirs, is_partition
from engine.log.logdir.startup import by_broker, of_one_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.discovery.choice import PartitionChoice
    from engine.files import ReadOnlyFiles
    from engine.findings import Finding
    from engine.image.elections import UncleanElection
    from engine.log.logdir.log_dirs import LogDir


class Node(NamedTuple):
    """One side. `name`: the part of its path that differs from those of the other sides; `is_one`: a partition was named."""

    name: str
    path: str
    log_dirs: list[LogDir]
    is_one: bool

    def directories(self) -> dict[tuple[str, int], list[str]]:
        """The directories by (topic, partition), without deleted, stray and future ones."""
        found: dict[tuple[str, int], list[str]] = {}
        for log_dir in self.log_dirs:
            for partition in log_dir.partitions(PartitionKind.PLAIN):
                found.setdefault(partition.key, []).append(partition.path)
        return found


class Copies(NamedTuple):
    """The copies of one partition: (name of the side, directory, topic id). The id is None if it is not known."""

    topic: str
    partition: int
    copies: list[tuple[str, str, str | None]]


def find_nodes(
    files: ReadOnlyFiles, paths: Iterable[str], choice: PartitionChoice, report: Callable[[Finding], None]
) -> list[Node]:
    """Find the sides: each path is one, or, if it contains the log dirs of several brokers, several.

    report  called for what cannot be read, if two sides are left
    Raises UnreadableFile, UsageError.
    """
    found: list[tuple[str, list[LogDir], bool]] = []
    errors: list[tuple[str, UnreadableFile | UsageError]] = []
    for path in paths:
        try:
            log_dirs = find_log_dirs(files, [path], report)
        except (UnreadableFile, UsageError) as error:
            errors.append((path, error))
            continue
        groups = by_broker(files, log_dirs) if all(one.is_whole for one in log_dirs) else [log_dirs]
        is_one = is_partition(files, path)
        common = [path] if len(groups) == 1 else [_common_path([one.path for one in group]) for group in groups]
        if len(set(common)) < len(common):
            common = [group[0].path for group in groups]
        found += [(name, group, is_one) for name, group in zip(common, groups, strict=True)]
    if len(found) < 2 and errors:
        raise errors[0][1]
    for path, why in errors:
        report(unreadable(path, why))
    if len(found) < 2:
        do = "name at least two partitions, log dirs or nodes; or a directory with several nodes"
        raise UsageError("nothing to compare with", do)
    _refuse_same(files, found)
    of_one_cluster(files, found[0][1][0].path, [log_dir.path for _, group, _ in found for log_dir in group])
    names = short_names([path for path, _, _ in found])
    nodes = [Node(name, path, group, is_one) for name, (path, group, is_one) in zip(names, found, strict=True)]
    if choice.is_all:
        return nodes
    everything = [one for node in nodes for one in node.log_dirs]
    chosen = {one.path: one for one in choose_partitions(everything, choice, (PartitionKind.PLAIN,))}
    return [node._replace(log_dirs=[chosen[one.path] for one in node.log_dirs if one.path in chosen]) for node in nodes]


def _refuse_same(files: ReadOnlyFiles, sides: Iterable[tuple[str, list[LogDir], bool]]) -> None:
    """Raise UsageError if a directory belongs to two sides."""
    known: dict[str, str] = {}
    for path, log_dirs, _ in sides:
        for real in {files.resolve(partition.path) for log_dir in log_dirs for partition in log_dir.directories}:
            if real in known:
                what = f"{known[real]} and {path} have the directory {real} in common"
                raise UsageError(what, "name each directory once", path=path)
            known[real] = path


def _common_path(paths: list[str]) -> str:
    """The directory that contains all of them."""
    parts = [path.split("/") for path in paths]
    common = next((at for at, names in enumerate(zip(*parts, strict=False)) if len(set(names)) > 1), len(parts[0]))
    return "/".join(parts[0][:common]) or paths[0]


def short_names(paths: list[str]) -> list[str]:
    """Return the parts of the paths in which they differ; the whole paths if that does not distinguish all of them."""
    parts = [[name for name in path.split("/") if name not in ("", ".")] for path in paths]
    shortest = min(map(len, parts))
    before = next((at for at in range(shortest) if len({one[at] for one in parts}) > 1), shortest)
    rest = shortest - before
    after = next((at for at in range(rest) if len({one[len(one) - 1 - at] for one in parts}) > 1), rest)
    names = ["/".join(one[before : len(one) - after]) for one in parts]
    return names if (before or not paths[0].startswith("/")) and all(names) and len(set(names)) == len(names) else paths


def copies_of(files: ReadOnlyFiles, nodes: list[Node], report: Callable[[Finding], None]) -> Iterator[Copies]:
    """Yield the partitions of all sides, in order; if a side is one partition, only that one.

    If all sides are partitions, these are compared whatever their names are. Raises UnreadableFile.
    """
    if all(node.is_one for node in nodes):
        partition = next(iter(nodes[0].directories()))
        paths = [(node.name, path) for node in nodes for paths in node.directories().values() for path in paths]
        yield Copies(*partition, [(name, path, read_topic_id(files, path)) for name, path in paths])
        return
    listed = [(node.name, node.directories()) for node in nodes]
    named = {partition for node in nodes if node.is_one for partition in node.directories()}
    for partition in sorted(named or {partition for _, directories in listed for partition in directories}):
        found = [(name, read_best_replica(files, there[partition], report)) for name, there in listed if partition in there]
        yield Copies(*partition, [(name, path, read_topic_id(files, path)) for name, path in found])


def pairs_of(copies: Copies) -> Iterator[tuple[tuple[str, str], tuple[str, str], bool]]:
    """Yield each two copies as (name, directory), and whether they are known to be of different topics."""
    for (name, path, topic_id), (other_name, other_path, other_id) in combinations(copies.copies, 2):
        yield (name, path), (other_name, other_path), None not in (topic_id, other_id) and topic_id != other_id


def elections_of(
    files: ReadOnlyFiles, nodes: list[Node], report: Callable[[Finding], None]
) -> dict[tuple[str, int], list[UncleanElection]] | None:
    """Return the unclean elections by topic id and partition, from the best copy of the metadata log; None: none."""
    paths = [f"{log_dir.path}/{METADATA_DIR}" for node in nodes for log_dir in node.log_dirs]
    there = [path for path in dict.fromkeys(paths) if files.exists(path)]
    if not there:
        return None
    from engine.image.elections import unclean_elections  # imports the decoder of the metadata log

    found: dict[tuple[str, int], list[UncleanElection]] = {}
    for one in unclean_elections(files, best_replica(files, there), report):
        found.setdefault((one.topic_id, one.partition), []).append(one)
    return found
