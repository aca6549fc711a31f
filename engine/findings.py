"""Findings: anything wrong that was seen, with a stable code, a severity, a place and an advice.

Codes are part of the public interface (JSON, Spark rows, docs/findings.md): they are never renamed.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from engine.errors import argument


class Severity(Enum):
    """How bad: harmless; to be repaired without loss, or a possible loss of before; data surely lost or unreadable."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Kind(NamedTuple):
    """What is known about a code: severity, why it happens, what to do (in commands `{path}` stands for the
    file, `{directory}` for where it lies, or would lie).
    """

    severity: Severity
    why: str
    do: str


class Where(NamedTuple):
    """A place: file as named by the caller, byte position and log offset where they are known."""

    file: str
    position: int | None = None
    offset: int | None = None


class Finding(NamedTuple):
    """Something wrong that was seen. `stands_for`: how many of the sort; `milder`: how bad, where less than its code."""

    code: str
    where: Where
    what: str
    stands_for: int = 1
    milder: Severity | None = None

    @property
    def kind(self) -> Kind:
        """What is known about this code."""
        return KINDS[self.code]

    @property
    def do(self) -> str:
        """What to do: a sentence, or a command that works when pasted."""
        advice, (directory, slash, _) = self.kind.do, self.where.file.rpartition("/")
        if "{directory}" in advice:
            return advice.replace("{directory}", argument(directory or slash or "."))
        return advice.replace("{path}", argument(self.where.file))

    @property
    def severity(self) -> Severity:
        """How bad it is here."""
        return self.milder or KINDS[self.code].severity


_DAMAGED = ("compare with a replica of the partition; `kafkalog recover --full --dry-run {directory}` shows what a repair "
            "truncates, with --salvage what it keeps")
_REBUILD = "kafkalog verify-index --rebuild {path}"
_REBUILD_MISSING = "kafkalog verify-index --rebuild {directory}"
_COMPARE_LOSS = "compare with a replica of the partition before a broker starts: it goes on without these records"
_RECOVER = "look at what `kafkalog recover --dry-run` says of the log dir"

# of these codes only offsets are missing: what is there is as it should be
LOSSES = frozenset((
    "offset-gap", "checkpoint-beyond-log", "snapshot-beyond-log", "epochs-beyond-log", "epochs-before-log", "start-before-log",
))  # fmt: skip

KINDS: dict[str, Kind] = {
    "crc-mismatch": Kind(
        Severity.ERROR,
        "the bytes changed after the broker wrote them, or a write was torn",
        _DAMAGED,
    ),
    "batch-size-invalid": Kind(
        Severity.ERROR,
        "no batch here can be that small, or that large: zeros of an unfinished write, or overwritten bytes",
        f"`kafkalog dump-log --continue-on-corruption` reads what follows; {_DAMAGED}",
    ),
    "torn-tail": Kind(
        Severity.ERROR,
        "the file ends inside a batch: a write was cut off, or a broker is writing at this moment",
        f"if no broker is running: {_DAMAGED}",
    ),
    "segment-too-large": Kind(
        Severity.ERROR,
        "a segment has at most 2147483647 bytes: a broker takes the log dir offline, or does not start",
        "du -h {path}    # its size on the disk; `kafkalog recover` says what can be done",
    ),
    "zero-tail": Kind(
        Severity.WARNING,
        "zeros behind the last batch: space that a crash left allocated but unwritten",
        f"where records are missing: {_DAMAGED}",
    ),
    "skipped-bytes": Kind(
        Severity.ERROR, "no batch with a valid header and checksum begins in these bytes",
        "compare with a replica of the partition",
    ),
    "search-cut-short": Kind(
        Severity.ERROR,
        "too many false batch headers after the damage; the search for the next valid batch stopped at its work limit",
        "compare with a replica of the partition; the bytes from here on, in a file of their own, are searched anew",
    ),
    "record-invalid": Kind(
        Severity.ERROR,
        "a length inside the record does not fit: the batch was damaged before its checksum was made, or by hand",
        "compare with a replica of the partition",
    ),
    "record-count-mismatch": Kind(
        Severity.ERROR, "the header's record count and the records disagree", "compare with a replica of the partition",
    ),
    "decompression-failed": Kind(
        Severity.ERROR, "the compressed bytes are damaged or belong to another codec",
        "compare with a replica of the partition",
    ),
    "unknown-codec": Kind(
        Severity.ERROR, "the codec bits name no codec that Kafka knows", "compare with a replica of the partition",
    ),
    "unknown-magic": Kind(
        Severity.ERROR, "the magic byte names no message format that Kafka 4.3.1 knows",
        "was the file written by a newer version, or is it no log?",
    ),
    "over-limit": Kind(
        Severity.WARNING, "the batch expands past the limit; none of its records is decoded, so that memory stays bounded",
        "raise --max-decompressed-bytes if the producer really sends such batches",
    ),
    "inflates-too-far": Kind(
        Severity.WARNING, "the batch expands past what compact takes into memory for one; it may be sound all the same",
        "let it: kafkalog compact --config max.message.bytes=N, with N the bytes that it becomes",
    ),
    "batch-too-large": Kind(
        Severity.WARNING, "the batch is larger than any broker accepts by default; its records are not decoded",
        "raise --max-batch-bytes if the topic really holds such batches",
    ),
    "control-record-invalid": Kind(
        Severity.ERROR, "the key or value of a control record does not follow its schema",
        "compare with a replica of the partition",
    ),
    "record-undecodable": Kind(
        Severity.WARNING, "the decoder that was asked for does not fit this record", "choose another decoder",
    ),
    "offset-gap": Kind(
        Severity.WARNING, "records are missing and no compaction explains it",
        "compare with a replica of the partition",
    ),
    "offset-order": Kind(
        Severity.ERROR, "offsets must grow within a log", _DAMAGED,
    ),
    "half-committed": Kind(
        Severity.WARNING, "partitions of the log dir may hold half of what was written, or be missing",
        "where that write does not run any more: kafkalog restore on the log dir",
    ),
    "no-offset-left": Kind(
        Severity.ERROR, "there is no offset for the batch behind it: a broker that finds it at the end of the log takes the "
        "log for ended before its start, and removes all of it", "kafkalog recover --dry-run {directory}",
    ),
    "index-offset-mismatch": Kind(
        Severity.WARNING, "the entry points to a batch that ends at another offset", _REBUILD,
    ),
    "index-beyond-log": Kind(
        Severity.WARNING, "the entry points outside the log, or to a place where no batch begins", _REBUILD,
    ),
    "index-size-invalid": Kind(
        Severity.WARNING, "the file holds a part of an entry: its last write was cut off", _REBUILD,
    ),
    "index-too-large": Kind(
        Severity.WARNING, "no index has that many bytes: it was not read, and a broker does not start with one of 2 GiB or "
        "more", _REBUILD,
    ),
    "index-corrupt": Kind(
        Severity.WARNING, "the broker's own sanity check refuses this index", _REBUILD,
    ),
    "index-out-of-order": Kind(
        Severity.WARNING, "offsets and positions must grow within an index and cannot be negative", _REBUILD,
    ),
    "index-zero-tail": Kind(
        Severity.INFO, "the file is still preallocated: its log was not closed cleanly, or is in use",
        "harmless: the broker trims it when it closes the log",
    ),
    "timeindex-timestamp-mismatch": Kind(
        Severity.WARNING, "the entry's timestamp is not the largest of its batch", _REBUILD,
    ),
    "timeindex-out-of-order": Kind(Severity.WARNING, "timestamps must grow within a time index", _REBUILD),
    "timeindex-offset-not-found": Kind(Severity.WARNING, "no batch ends at the entry's offset", _REBUILD),
    "txnindex-invalid": Kind(
        Severity.WARNING, "the entry's version or order makes no sense", _REBUILD,
    ),
    "snapshot-corrupt": Kind(
        Severity.WARNING, "the producer snapshot's checksum, version or structure is wrong",
        _REBUILD,
    ),
    "file-malformed": Kind(
        Severity.ERROR, "the file does not follow its format", "restore it from another log directory or delete it",
    ),
    "name-invalid": Kind(
        Severity.WARNING, "the name does not say the offset that Kafka's naming demands",
        "rename the file to 20 digits and its suffix",
    ),
    "log-missing": Kind(
        Severity.WARNING, "the index stands alone: there is no log to check it against",
        "restore the .log of the same name, or delete the index",
    ),
    "path-unreadable": Kind(
        Severity.ERROR, "the operating system refuses it: nothing behind it was looked at",
        "check its permissions and where it leads, then run again",
    ),
    "path-skipped": Kind(
        Severity.WARNING, "the search goes down a limited number of directories from the path that was given",
        "name the directory itself",
    ),
    "index-missing": Kind(
        Severity.WARNING, "lookups by offset and by time go through the offset index; a broker that finds none beside a log "
        "recovers the segment when it starts", _REBUILD_MISSING,
    ),
    "index-first-offsets": Kind(
        Severity.INFO, "brokers before 2.0 indexed the first offset of an append, later ones the last: both are sound",
        "nothing to do",
    ),
    "index-append-offsets": Kind(
        Severity.INFO, "brokers from 2.0 to 4.0 indexed the last offset of an append, which may be several batches: sound too",
        "nothing to do",
    ),
    "index-untrimmed": Kind(
        Severity.WARNING, "the broker does not check this index when it starts and takes its unused zeros for entries",
        _REBUILD,
    ),
    "timeindex-record-offsets": Kind(
        Severity.INFO, "older brokers wrote the offset of the latest record, later ones the last of its batch: both are sound",
        "nothing to do",
    ),
    "timeindex-unverifiable": Kind(
        Severity.INFO, "brokers of 0.10 and later indexed the timestamps of messages that they stored in format 0 without them",
        "nothing to do",
    ),
    "timeindex-incomplete": Kind(
        Severity.WARNING, "a rolled or closed segment ends its time index with its largest timestamp; without it lookups by "
        "time pass the segment by, and retention takes it for older than it is", _REBUILD,
    ),
    "txnindex-mismatch": Kind(
        Severity.WARNING, "the entry does not fit the batches and markers of its producer: consumers that read committed "
        "records only may get others, or lose some", _REBUILD,
    ),
    "txnindex-incomplete": Kind(
        Severity.WARNING, "a transaction was aborted and the index does not say so: consumers that read committed records "
        "only are handed its records", _REBUILD_MISSING,
    ),
    "snapshot-mismatch": Kind(
        Severity.WARNING, "what the snapshot says of a producer does not fit its batches before that offset: after a clean "
        "start the broker refuses or repeats batches, or holds the last stable offset back", _REBUILD,
    ),
    "snapshot-beyond-log": Kind(
        Severity.WARNING, "the log once reached the snapshot's offset: records at its end were lost", _COMPARE_LOSS,
    ),
    "snapshot-missing": Kind(
        Severity.WARNING, "the log has producers, and no snapshot of them: after a clean stop a broker starts without their "
        "state and accepts duplicates", "kafkalog recover {directory}    # it reads the batches and writes snapshots",
    ),
    "epochs-mismatch": Kind(
        Severity.WARNING, "the checkpoint gives offsets to another leader epoch than their batches: replicas that compare "
        "epochs truncate at the wrong place", _REBUILD,
    ),
    "epoch-order": Kind(
        Severity.WARNING, "leader epochs never go back: the batch was changed, which no checksum shows. A broker that recovers "
        "the segment may take the epoch over into leader-epoch-checkpoint",
        "compare with a replica of the partition; `kafkalog recover --dry-run` says what becomes of the checkpoint",
    ),
    "records-in-remote-storage": Kind(
        Severity.WARNING,
        "the log starts before its first local segment, as logs with remote storage do: the broker copied the segments before "
        "it and deleted them here. Of a check, which does not look for them, only an info",
        "read them with a consumer while a broker of the cluster runs; if the topic never had remote storage, compare with a "
        "replica of the partition",
    ),
    "open-transaction": Kind(
        Severity.WARNING,
        "nothing says yet whether its records are committed: a consumer that reads committed records waits here",
        "after the end of its broker: --open-transactions abort (Spark: openTransactions) reads the log as it will be then",
    ),
    "open-transaction-ended": Kind(
        Severity.INFO,
        "the log has no marker for it; a coordinator that starts writes one: a commit if that was decided, else an abort",
        "nothing to do",
    ),
    "epochs-start-late": Kind(
        Severity.INFO, "records were deleted from the front of the log (the log start offset moved), or lines are lost",
        "nothing to do where records were deleted",
    ),
    "epochs-beyond-log": Kind(
        Severity.WARNING, "the log once reached the epoch's first offset: records at its end were lost", _COMPARE_LOSS,
    ),
    "epochs-before-log": Kind(
        Severity.WARNING, "the first leader epoch begins before the first segment, and no log start offset explains it: "
        "segments at the start of the log were lost", _COMPARE_LOSS,
    ),
    "start-before-log": Kind(
        Severity.WARNING, "log-start-offset-checkpoint has the log begin before its first segment, and no leader epoch tells "
        "that segments were deleted: segments at the start of the log were lost", _COMPARE_LOSS,
    ),
    "checkpoint-beyond-log": Kind(
        Severity.WARNING, "the checkpoint counts records that the log does not have: it lost its end, or is an older copy",
        _COMPARE_LOSS,
    ),
    "leftover-file": Kind(
        Severity.INFO, "a compaction or a split was interrupted; a broker that starts completes or undoes it", _RECOVER,
    ),
    "swap-loses-records": Kind(
        Severity.WARNING, "a broker that starts replaces segments by this file, which does not hold all that they hold",
        "kafkalog recover --salvage --dry-run {directory}    # before a broker starts",
    ),
    "broker-stops": Kind(
        Severity.WARNING, "a broker that starts on this log dir gives up, in these words", _RECOVER,
    ),
    "log-dir-offline": Kind(
        Severity.WARNING, "a broker takes the whole log dir offline, and with it every replica in it", _RECOVER,
    ),
    "partition-stray": Kind(
        Severity.WARNING, "a broker renames the directory to -stray, and the topic comes up empty", _RECOVER,
    ),
    "metadata-loss": Kind(
        Severity.ERROR, "a broker starts, cuts the metadata log there, and renames every partition that it then does not know "
        "to -stray: a cluster is lost, and nothing says so", "start no broker on it before the metadata log is restored",
    ),
    "broker-warns": Kind(Severity.WARNING, "a broker starts without this file, and says so", _RECOVER),
    "replica-chosen": Kind(
        Severity.INFO, "several directories hold this partition: the copy with the latest leader epoch is read, of those the "
        "longest", "name the directory of another copy to read that one",
    ),
    "replica-divergence": Kind(
        Severity.ERROR, "two replicas hold different records at the same offsets: after an unclean leader election, or a crash "
        "that lost acknowledged records", "keep the copy with the latest leader epoch; the others fetch it again",
    ),
    "start-beyond-end": Kind(
        Severity.ERROR, "the checkpoint is wrong, or the log lost its end: records below the log start offset count as deleted",
        "if the log is right, delete its line from the checkpoint before a broker starts; `kafkalog recover` asks what to do",
    ),
    "path-vanished": Kind(Severity.INFO, "a running broker removed it while it was looked for", "nothing to do"),
    "file-ignored": Kind(Severity.INFO, "the name is none of Kafka's", "nothing to do"),
    "gaps-compacted": Kind(
        Severity.INFO, "offsets are missing between batches, and by the keys of the records the cleaner took them",
        "nothing to do where the topic is compacted",
    ),
    "rolled-ahead": Kind(
        Severity.INFO, "the last segment is empty and begins behind the end of the one before: `roll --to` does so, and a "
        "broker goes on at its base offset without a word", "nothing to do, unless somebody took files away",
    ),
    "nothing-found": Kind(
        Severity.INFO, "there is no file of Kafka's in the directory, nor below it", "was another directory meant?",
    ),
}
