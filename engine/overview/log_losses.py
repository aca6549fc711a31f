"""Losses at the ends of a log that other files prove, for commands whose answer needs the whole log.

The module stands alone: `transactions` and `group_state` use it, and `engine.log.fetch` is below `engine.log.verify`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.discovery.names import is_log_file_name, log_file_name
from engine.findings import Finding, Where
from engine.log.segment.batch_search import end_by_headers
from engine.log.tiering import Tiering, TopicPolicy
from engine.log.verify.losses import read_evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.files import ReadOnlyFiles
    from engine.log.tiering import Policy


def of_compacted() -> TopicPolicy:
    """The policy of a compacted topic, such as those of coordinators."""
    return TopicPolicy(compacted=True, tiering=Tiering.UNTIERED)


def proven_losses(files: ReadOnlyFiles, directory: str, policy: Policy | None) -> Iterator[Finding]:
    """Yield a finding for records lost at the end of a log, and for those lost before its first segment.

    policy  None: only the end is asked for
    Evidence is read before the end is measured: a running broker may append in between. Raises UnreadableFile.
    """
    evidence = read_evidence(files, directory, of_end_only=policy is None)
    bases = sorted(int(name[:20]) for name in files.plain(directory) if is_log_file_name(name))
    end = 0
    if bases:
        with files.open(f"{directory}/{log_file_name(bases[-1])}") as file:
            end = end_by_headers(file, 0, bases[-1])
    claims = evidence.beyond(end)
    if claims:
        yield max(claims, key=lambda claim: claim.end).finding(end)
    elif not bases:
        yield Finding("log-missing", Where(directory), "it has no .log: none of its records is here")
    before = None if policy is None or not bases else evidence.before(bases[0], policy)
    if before is not None:
        yield before.finding
