"""Why a partition is left as it is: what a walk of the cleaner raises."""

from __future__ import annotations

from engine.discovery.names import parent_of
from engine.errors import KafkalogError, argument
from engine.findings import Finding, Where
from engine.log.errors import whole_recovery


class Uncleanable(KafkalogError):
    """A partition that cannot be cleaned: a batch in it is damaged, or inflates to more than a walk takes. Its segment and
    those behind it are as they were.

    cleaned_below  segments below this offset were cleaned by the same round; None: it changed nothing. A round looks for damage
                   before it changes anything: only what nobody foresaw is met so late
    """

    code = "uncleanable"

    def __init__(self, finding: Finding, do: str | None = None) -> None:
        where = finding.where
        place = f"{where.file} at byte {where.position}, offset {where.offset}"
        super().__init__(f"{place}: {finding.what}", do=do or whole_recovery(parent_of(where.file)))
        self.finding = finding
        self.cleaned_below: int | None = None


def untold_abort(path: str, position: int, offset: int) -> Uncleanable:
    """The marker at `position` aborts a transaction that no transaction index knows, so that its records would count."""
    what = ("this marker aborts a transaction that is missing from the transaction index: its records would be kept as the "
            "latest of their keys, and the committed records would be deleted")
    do = f"kafkalog verify --rebuild {argument(parent_of(path))}    # rebuilds the transaction index"
    return Uncleanable(Finding("txnindex-incomplete", Where(path, position, offset), what), do)
