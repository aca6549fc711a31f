"""Losses at the ends of a log that other files prove, for commands whose answer needs the whole log.

The module stands alone: `transactions` and `group_state` use it, and `engine.log.fetch` is below `engine.log.verify`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.discovery.names import FileKind, is_log_file_name, log_file_name
from engine.findings import Finding, Where
from engine.log.segment.batch_search import end_by_headers
from engine.log.tiering import Tiering, TopicPolicy
from engine.log.verify.losses import read_evidence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.files import ReadOnlyFiles
    from engine.log.tiering import Policy
    from engine.log.verify.losses import Claim, Evidence


def of_compacted() -> TopicPolicy:
    """The policy of a compacted topic, such as those of coordinators."""
    return TopicPolicy(compacted=True, tiering=Tiering.UNTIERED)


def proven_losses(files: ReadOnlyFiles, replicas: Sequence[str], policy: Policy | None) -> Iterator[Finding]:
    """Yield a finding for records lost at the end of a log, and for those lost before its first segment.

    replicas  directories of the partition; the log in the first one is read, of the others what proves that it lost records
    policy    None: only the end is asked for
    Evidence is read before the end is measured: a running broker may append in between. Raises UnreadableFile.
    """
    directory, *others = replicas
    evidence = read_evidence(files, directory, of_end_only=policy is None)
    known = [read_evidence(files, other, of_end_only=True) for other in others]
    bases = sorted(int(name[:20]) for name in files.plain(directory) if is_log_file_name(name))
    end = 0
    if bases:
        with files.open(f"{directory}/{log_file_name(bases[-1])}") as file:
            end = end_by_headers(file, 0, bases[-1])
    claims = evidence.beyond(end) + [
        claim._replace(what=f"{claim.what}; {directory} is read, the best replica of those here")
        for other in known for claim in other.beyond(end) if _counts(claim, other, evidence)
    ]  # fmt: skip
    if claims:
        yield max(claims, key=lambda claim: claim.end).finding(end)
    elif not bases:
        yield Finding("log-missing", Where(directory), "it has no .log: none of its records is here")
    before = None if policy is None or not bases else evidence.before(bases[0], policy)
    if before is not None:
        yield before.finding


def _counts(claim: Claim, other: Evidence, best: Evidence) -> bool:
    """Return whether a claim about another replica is about the log of the best one, too.

    Its high watermark always is: these records were acknowledged. Anything else may be about records of an older leader epoch
    that were never on the other replicas, and that it would truncate.
    """
    if claim.path.endswith(f"/{FileKind.REPLICATION_CHECKPOINT.value}"):
        return True
    last, known = (one.epochs[-1].epoch if one.epochs else -1 for one in (best, other))
    return known >= last
