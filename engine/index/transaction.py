"""The transaction index of a segment: transactions whose abort marker is in it. Mirrors TransactionIndex."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

from engine.amounts import count_of
from engine.findings import Finding, First, Where
from engine.formats import ABORTED_TXN, AbortedTxn
from engine.index.entries import Backing, CorruptIndex, IndexFile, TransactionOrder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.files import Buffer, ReadOnlyFiles

CURRENT_VERSION = 0
MAX_FINDINGS = 100  # findings about bad entries of one file

_LAST_OFFSET = AbortedTxn._fields.index("last_offset")


class AbortedTxns(NamedTuple):
    """Aborted transactions that concern a fetch. `is_complete`: later segments cannot add any."""

    transactions: list[AbortedTxn]
    is_complete: bool


def version_as_kafka_reads(txn: AbortedTxn) -> int:
    """Return the version that Kafka sees: it reads only the first of the two bytes, so 0x0001 is 0 and 0x0100 is 1."""
    return txn.version >> 8


def aborted_txn_text(txn: AbortedTxn) -> str:
    """Return the line that kafka-dump-log prints, with the version that it sees."""
    return (
        f"version: {version_as_kafka_reads(txn)} producerId: {txn.producer_id} firstOffset: {txn.first_offset} "
        f"lastOffset: {txn.last_offset} lastStableOffset: {txn.last_stable_offset}"
    )


class TransactionIndex(IndexFile):
    """A .txnindex file. It exists only if a transaction was aborted; nothing is preallocated."""

    entry_size = ABORTED_TXN.size
    _last_offset: int | None = None  # of the entries appended since the index was opened

    @classmethod
    def open(
        cls, files: ReadOnlyFiles, path: str, base_offset: int, *, writable: bool = True, exists: bool | None = None
    ) -> Self:
        """Open the file at `path`, which may be missing: the first entry makes it. Raises UnreadableFile.

        exists  whether the file exists; None: ask the disk
        """
        index = cls(bytearray(), base_offset, path)
        backing = Backing(files, path, writable=writable, exists=exists)
        index._attach(backing, backing.length)
        return index

    def append(self, txn: AbortedTxn) -> None:
        """Add an entry, as `extend` does."""
        self.extend(ABORTED_TXN.pack(txn))

    def extend(self, entries: Buffer) -> None:
        """Add entries, in their bytes, at the end of the file, even if it ends inside an entry.

        Raises TransactionOrder if a last offset is not above that of the previous entry; the entries before it are added.
        """
        for number, entry in enumerate(ABORTED_TXN.struct.iter_unpack(entries)):
            last_offset = entry[_LAST_OFFSET]
            if self._last_offset is not None and self._last_offset >= last_offset:
                self._add(memoryview(entries)[: number * self.entry_size])
                what = (
                    f"The last offset of appended transactions must increase sequentially, but {last_offset} is not "
                    f"greater than current last offset {self._last_offset} of index {self.path}"
                )
                raise TransactionOrder(what)
            self._last_offset = last_offset
        self._add(entries)

    def add_missing(self, txns: Sequence[AbortedTxn]) -> None:
        """Add, in the order of their last offsets, those of `txns` whose last offset no entry has."""
        entries = list(self)
        ended = {txn.last_offset for txn in entries}
        missing = [txn for txn in txns if txn.last_offset not in ended]
        if missing:
            self.reset()
            for txn in sorted((*missing, *entries), key=lambda txn: txn.last_offset):
                self.append(txn)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries from the first with last offset `offset` or larger on. Raises CorruptIndex for a later version."""
        self._refuse_later_version()
        last_offset: int | None = None
        for number, txn in enumerate(self):
            if txn.last_offset >= offset:
                self._cut(number * self.entry_size)
                self._file.set_length(self._size)
                self._last_offset = last_offset
                return
            last_offset = txn.last_offset

    def reset(self) -> None:
        """Remove all entries; an existing file remains until the new one is written completely."""
        self._cut(0)
        self._last_offset = None
        if self._file.exists and self._file.length:
            self._file.begin_rewrite(0)

    def close(self) -> None:
        """Write back. The index may be used again."""
        self.sync_changes()

    def collect_aborted_txns(self, fetch_offset: int, upper_bound_offset: int) -> AbortedTxns:
        """As `aborted_in`, but raises CorruptIndex for an entry with a version that Kafka does not know."""
        self._refuse_later_version()
        return self.aborted_in(fetch_offset, upper_bound_offset)

    def checked(self) -> Iterator[AbortedTxn]:
        """Iterate over all entries. Raises CorruptIndex before the first if one has a version that Kafka does not know."""
        self._refuse_later_version()
        return iter(self)

    def sanity_check(self) -> None:
        """Raise CorruptIndex if the broker would. Mirrors TransactionIndex.sanityCheck."""
        error = self.broker_error(self.path)
        if error:
            raise CorruptIndex(error)

    def _refuse_later_version(self) -> None:
        error = self.read_error(self.path)
        if error:
            raise CorruptIndex(error)

    def entry(self, number: int) -> AbortedTxn:
        """Return entry `number`, from 0. Raises IndexError outside the file."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        return ABORTED_TXN.read(self.data, number * self.entry_size)

    def __iter__(self) -> Iterator[AbortedTxn]:
        for at in range(0, len(self) * self.entry_size, self.entry_size):
            yield ABORTED_TXN.read(self.data, at)

    def aborted_in(self, fetch_offset: int, upper_bound_offset: int) -> AbortedTxns:
        """Return the transactions that overlap the offsets from `fetch_offset` to before `upper_bound_offset`.

        Mirrors TransactionIndex.collectAbortedTxns.
        """
        found: list[AbortedTxn] = []
        for txn in self:
            if txn.last_offset >= fetch_offset and txn.first_offset < upper_bound_offset:
                found.append(txn)
            if txn.last_stable_offset >= upper_bound_offset:
                return AbortedTxns(found, is_complete=True)
        return AbortedTxns(found, is_complete=False)

    def sanity(self) -> list[Finding]:
        """Check the file without its log: one finding for each of MAX_FINDINGS bad entries, and one for all others."""
        found: First[Finding] = First(MAX_FINDINGS)
        last_offset = self.base_offset - 1
        for number, txn in enumerate(self):
            what = _fault(txn, self.base_offset, last_offset)
            last_offset = max(last_offset, txn.last_offset)
            if what:
                where = Where(self.path, number * self.entry_size, txn.last_offset)
                found.take(Finding("txnindex-invalid", where, f"entry {number}: {what}"))
        if found.more:
            found.append(Finding("txnindex-invalid", Where(self.path), count_of(found.more, "more invalid entry"), found.more))
        return [*self.odd_size(), *found]

    def read_error(self, absolute_path: str) -> str | None:
        """Return the message of the KafkaException with which Kafka stops at an entry of a later version; None: it does not.

        Kafka's dump collects all entries first, so it prints none.
        """
        for txn in self:
            version = version_as_kafka_reads(txn)
            if version > CURRENT_VERSION:
                return (
                    f"Unexpected aborted transaction version {version} in transaction index {absolute_path}, "
                    f"current version is {CURRENT_VERSION}"
                )
        return None

    def broker_error(self, absolute_path: str) -> str | None:
        """Return the message with which the broker refuses the index, None if it passes. Mirrors TransactionIndex.sanityCheck.

        The exception is KafkaException for a version (`read_error`), else CorruptIndexException.
        """
        for txn in self:
            version = version_as_kafka_reads(txn)
            if version > CURRENT_VERSION:
                return self.read_error(absolute_path)
            if txn.last_offset < self.base_offset:
                return (
                    f"Last offset of aborted transaction AbortedTxn(version={version}, producerId={txn.producer_id}, "
                    f"firstOffset={txn.first_offset}, lastOffset={txn.last_offset}, "
                    f"lastStableOffset={txn.last_stable_offset}) in index {absolute_path} is less than start offset "
                    f"{self.base_offset}"
                )
        return None


def _fault(txn: AbortedTxn, base_offset: int, last_offset: int) -> str | None:
    """Return the fault of `txn`, which follows an entry that ends at `last_offset`; None: it is valid."""
    if txn.version != CURRENT_VERSION:
        return f"version {txn.version}, only {CURRENT_VERSION} exists"
    if txn.producer_id < 0:
        return f"producer id {txn.producer_id}"
    if not 0 <= txn.first_offset <= txn.last_offset:
        return f"a transaction from offset {txn.first_offset} to {txn.last_offset}"
    if txn.last_offset < base_offset:
        return f"it ends at offset {txn.last_offset}, before the segment begins at {base_offset}"
    if txn.last_offset <= last_offset:
        return f"it ends at offset {txn.last_offset}, the one before at {last_offset}"
    if txn.last_stable_offset < 0:
        return f"last stable offset {txn.last_stable_offset}"
    return None
