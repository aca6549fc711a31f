"""Findings: problems in files, each with a stable code, a severity, a place and advice.

Codes are part of the public interface (JSON, Spark rows, docs/findings.md): they are never renamed.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeVar

from engine.errors import argument

T = TypeVar("T")


class First(list[T]):
    """A list of the first `most` items added; `more` counts the others."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most, self.more = most, 0

    def take(self, one: T) -> None:
        """Add an item, or count it if the list is full."""
        if len(self) < self._most:
            self.append(one)
        else:
            self.more += 1


class Severity(Enum):
    """INFO: harmless. WARNING: repairable without loss, or a possible earlier loss. ERROR: data is lost or unreadable."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Kind(NamedTuple):
    """Severity, cause and advice of a code. In commands of the advice `{path}` is the file, `{directory}` its directory, which
    may not exist.
    """

    severity: Severity
    why: str
    do: str


class Where(NamedTuple):
    """A place: the file as the caller gave it, the byte position and the log offset, if known."""

    file: str
    position: int | None = None
    offset: int | None = None


class Finding(NamedTuple):
    """A problem that was found.

    occurrences  the number of problems in it
    milder       a severity below that of its code
    step         advice for this case, instead of that of its code
    """

    code: str
    where: Where
    what: str
    occurrences: int = 1
    milder: Severity | None = None
    step: str | None = None

    @property
    def kind(self) -> Kind:
        """Return severity, cause and advice of the code."""
        return KINDS[self.code]

    @property
    def do(self) -> str:
        """Return the advice: a sentence, or a command to paste."""
        if self.step is not None:
            return self.step
        advice, (directory, slash, _) = self.kind.do, self.where.file.rpartition("/")
        if "{directory}" in advice:
            return advice.replace("{directory}", argument(directory or slash or "."))
        return advice.replace("{path}", argument(self.where.file))

    @property
    def severity(self) -> Severity:
        """Return the severity: `milder`, else that of the code."""
        return self.milder or KINDS[self.code].severity


def ignore(_finding: Finding) -> None:
    """Report nothing: for a caller that reads only, and whose findings are reported elsewhere or mean nothing to it."""


_DAMAGED = ("compare with a replica of the partition; `kafkalog recover --full --dry-run {directory}` shows what a repair "
            "truncates, with --salvage what it keeps")
_REBUILD = "kafkalog verify --rebuild {path}"
_REBUILD_MISSING = "kafkalog verify --rebuild {directory}"
_COMPARE_LOSS = "compare with a replica of the partition before a broker starts: a broker continues without these records"
_RECOVER = "kafkalog recover --dry-run {directory}"

# findings of these codes concern missing offsets; the bytes that exist are undamaged
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
        "zeros after the last batch: space that was allocated before a crash and never written",
        f"where records are missing: {_DAMAGED}",
    ),
    "skipped-bytes": Kind(
        Severity.ERROR, "no batch with a valid header and checksum begins in these bytes",
        "compare with a replica of the partition",
    ),
    "search-cut-short": Kind(
        Severity.ERROR,
        "too many false batch headers after the damage; the search for the next valid batch stopped at its work limit",
        "compare with a replica of the partition; to search the bytes from here on, copy them into a file of their own",
    ),
    "record-invalid": Kind(
        Severity.ERROR,
        "a length inside the record does not fit: the batch was damaged before its checksum was computed, or was edited",
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
        Severity.ERROR, "the batch's compression codec is not one that Kafka knows", "compare with a replica of the partition",
    ),
    "unknown-magic": Kind(
        Severity.ERROR, "the magic byte is not that of a message format of Kafka 4.3.1",
        "check whether a newer version of Kafka wrote the file, or whether it is not a log",
    ),
    "over-limit": Kind(
        Severity.WARNING, "the decompressed batch is larger than the limit; its records are not decoded, so that memory stays "
                          "bounded",
        "raise --max-decompressed-bytes if the producer really sends batches of that size",
    ),
    "inflates-too-far": Kind(
        Severity.WARNING, "the decompressed batch is larger than compact's limit for one batch; the batch may be sound",
        "raise the limit: kafkalog compact --config max.message.bytes=N (N = the decompressed size)",
    ),
    "batch-too-large": Kind(
        Severity.WARNING, "the batch is larger than any broker accepts by default; its records are not decoded",
        "raise --max-batch-bytes if the topic really has batches of that size",
    ),
    "control-record-invalid": Kind(
        Severity.ERROR, "the key or value of a control record does not follow its schema",
        "compare with a replica of the partition",
    ),
    "record-undecodable": Kind(
        Severity.WARNING, "the chosen decoder cannot read this record",
        "choose another decoder; for values with an unknown schema: --schema FILE",
    ),
    "offset-gap": Kind(
        Severity.WARNING, "records are missing, and compaction does not explain it",
        "compare with a replica of the partition",
    ),
    "offset-order": Kind(
        Severity.ERROR, "offsets must increase within a log: a batch was written twice, or has a wrong base offset; a broker "
                        "keeps it, unless an index refuses it, and consumers read records twice or miss some",
        _DAMAGED,
    ),
    "sequence-order": Kind(
        Severity.WARNING, "the sequence numbers of a producer increase within a log: base offsets may be wrong, or a batch may "
                          "be there twice",
        _DAMAGED,
    ),
    "half-committed": Kind(
        Severity.WARNING, "a write of Spark's sink did not finish: partitions of the log dir may hold only a part of it, or "
                          "be missing",
        "if that write is no longer running: run `kafkalog restore` on the log dir",
    ),
    "no-offset-left": Kind(
        Severity.ERROR, "no offset is left for a batch after it: a broker that finds it at the end of the log computes a "
        "log end below the log start and deletes the whole log", "kafkalog recover --dry-run {directory}",
    ),
    "index-offset-mismatch": Kind(
        Severity.WARNING, "the entry points to a batch with another last offset", _REBUILD,
    ),
    "index-beyond-log": Kind(
        Severity.WARNING, "the entry points outside the log, or to a place where no batch begins", _REBUILD,
    ),
    "index-size-invalid": Kind(
        Severity.WARNING, "the file ends with a part of an entry: its last write was not finished", _REBUILD,
    ),
    "index-too-large": Kind(
        Severity.WARNING, "an index is never that large, so it was not read; a broker does not start with one of 2 GiB or "
        "more", _REBUILD,
    ),
    "index-corrupt": Kind(
        Severity.WARNING, "the index fails the broker's own sanity check", _REBUILD,
    ),
    "index-out-of-order": Kind(
        Severity.WARNING, "offsets and positions must increase within an index and cannot be negative", _REBUILD,
    ),
    "index-zero-tail": Kind(
        Severity.INFO, "the file is still preallocated: its log was not closed cleanly, or is in use",
        "harmless: the broker trims it when it closes the log",
    ),
    "timeindex-timestamp-mismatch": Kind(
        Severity.WARNING, "the entry's timestamp is not the largest of its batch", _REBUILD,
    ),
    "timeindex-out-of-order": Kind(Severity.WARNING, "timestamps must increase within a time index", _REBUILD),
    "timeindex-offset-not-found": Kind(Severity.WARNING, "no batch ends at the entry's offset", _REBUILD),
    "txnindex-invalid": Kind(
        Severity.WARNING, "the entry's version is unknown, or the entries are out of order", _REBUILD,
    ),
    "snapshot-corrupt": Kind(
        Severity.WARNING, "the producer snapshot's checksum, version or structure is wrong",
        _REBUILD,
    ),
    "file-malformed": Kind(
        Severity.ERROR, "the file does not follow its format", "restore it from another log directory or delete it",
    ),
    "name-invalid": Kind(
        Severity.WARNING, "the file name does not contain a valid offset",
        "rename the file to its base offset in 20 digits and its suffix",
    ),
    "log-missing": Kind(
        Severity.WARNING, "the index has no .log file beside it to check it against",
        "restore the .log of the same name, or delete the index",
    ),
    "path-unreadable": Kind(
        Severity.ERROR, "the operating system denied access: nothing in this path was checked",
        "check its permissions, and the target if it is a link; then run the command again",
    ),
    "path-skipped": Kind(
        Severity.WARNING, "the search descends only a limited number of directories below the given path",
        "name the directory itself",
    ),
    "index-missing": Kind(
        Severity.WARNING, "lookups by offset and by time need the offset index; a broker that finds none recovers the "
        "segment when it starts", _REBUILD_MISSING,
    ),
    "index-first-offsets": Kind(
        Severity.INFO, "brokers before 2.0 indexed the first offset of an append, later ones the last: both are valid",
        "nothing to do",
    ),
    "index-append-offsets": Kind(
        Severity.INFO, "brokers from 2.0 to 4.0 indexed the last offset of an append, which may be several batches: this is "
                       "valid",
        "nothing to do",
    ),
    "index-untrimmed": Kind(
        Severity.WARNING, "the broker does not check this index when it starts, and reads its unused zeros as entries",
        _REBUILD,
    ),
    "timeindex-record-offsets": Kind(
        Severity.INFO, "older brokers wrote the offset of the latest record, later ones the last offset of its batch: both "
                       "are valid",
        "nothing to do",
    ),
    "timeindex-unverifiable": Kind(
        Severity.INFO, "brokers of 0.10 and later indexed the timestamps of messages that they stored in format 0 without them",
        "nothing to do",
    ),
    "timeindex-incomplete": Kind(
        Severity.WARNING, "the last entry of the time index must be the segment's largest timestamp; without it lookups by "
        "time skip the segment, and retention assumes that it is older than it is", _REBUILD,
    ),
    "txnindex-mismatch": Kind(
        Severity.WARNING, "the entry does not match the batches and markers of its producer: a read_committed consumer "
        "may get aborted records, or miss committed ones", _REBUILD,
    ),
    "txnindex-incomplete": Kind(
        Severity.WARNING, "an aborted transaction is not in the index: read_committed consumers get its "
        "records", _REBUILD_MISSING,
    ),
    "snapshot-mismatch": Kind(
        Severity.WARNING, "the snapshot's state of a producer does not match its batches: after a clean start the broker "
        "refuses valid batches, accepts duplicates, or holds the last stable offset back", _REBUILD,
    ),
    "snapshot-beyond-log": Kind(
        Severity.WARNING, "the log had reached the snapshot's offset: records at its end were lost", _COMPARE_LOSS,
    ),
    "snapshot-missing": Kind(
        Severity.WARNING, "the log has batches of producers and no producer snapshot: after a clean stop a broker starts "
        "without producer state and accepts duplicates", "kafkalog recover {directory}    # it reads the batches and writes "
                                                         "snapshots",
    ),
    "epochs-mismatch": Kind(
        Severity.WARNING, "the leader epochs in the checkpoint do not match those of the batches: replicas that compare "
        "epochs truncate at the wrong offset", _REBUILD,
    ),
    "epoch-order": Kind(
        Severity.WARNING, "leader epochs never decrease, so the batch was changed; its checksum does not cover the epoch. A "
        "broker that recovers the segment may copy the epoch into leader-epoch-checkpoint",
        "compare with a replica of the partition; `kafkalog recover --dry-run` shows what would happen to the checkpoint",
    ),
    "records-in-remote-storage": Kind(
        Severity.WARNING,
        "the log starts before its first local segment, as logs with remote storage do: the broker copied the earlier "
        "segments and deleted them here. verify without --store reports this as info",
        "`kafkalog fetch --store URL` reads them from the store; if the topic never had remote storage, compare with a replica "
        "of the partition",
    ),
    "frame-invalid": Kind(
        Severity.ERROR, "the bytes do not follow the protocol: the client has a bug, the capture is damaged, or this is not "
        "a file of frames", "compare with the client's log: a broker closes the connection on such a request",
    ),
    "frame-undecoded": Kind(
        Severity.INFO, "kafkalog does not decode this API or version, or the capture lacks the request of a response",
        "nothing to do",
    ),
    "capture-incomplete": Kind(
        Severity.WARNING, "the capture lost packets or their ends, or has connections of other protocols",
        "capture again: tcpdump -s 0 -B 65536 -w FILE port 9092",
    ),
    "sent-batch-invalid": Kind(
        Severity.ERROR, "the leader refuses such a batch (CORRUPT_MESSAGE, INVALID_RECORD); so does a consumer that fetches it",
        "look for a bug in the client that made the batch, or for a fault of the network",
    ),
    "sent-batch-large": Kind(
        Severity.WARNING, "the leader refuses a batch larger than max.message.bytes (MESSAGE_TOO_LARGE)",
        "raise max.message.bytes of the topic, or lower batch.size or the size of the records in the producer",
    ),
    "sequence-gap": Kind(
        Severity.WARNING, "an idempotent producer skipped sequences: batches are missing in the capture, were sent on another "
        "connection, or the leader answers OUT_OF_ORDER_SEQUENCE_NUMBER", "read the responses to this producer's requests",
    ),
    "sequence-repeated": Kind(
        Severity.INFO, "an idempotent producer repeated a batch, for example after a lost response; the leader stores it once",
        "nothing to do",
    ),
    "remote-object-missing": Kind(
        Severity.ERROR,
        "the metadata says that the segment is copied: consumers that reach it get nothing, and retry forever",
        "restore the object from a version or a backup of the store; if the segment is still local on a replica, copy it from "
        "there",
    ),
    "remote-object-damaged": Kind(
        Severity.ERROR,
        "the object is not what its broker wrote. Kafka notices only wrong checksums of batches: otherwise consumers get wrong "
        "records, or pass over them, without an error",
        "restore the object from a version or a backup of the store; if the segment is still local on a replica, copy it from "
        "there",
    ),
    "remote-object-unknown": Kind(
        Severity.WARNING,
        "no segment of the metadata has the object: an upload or the deletion of a topic was cut off, or another cluster uses "
        "the store. Brokers never delete it",
        "check that the log dirs have all partitions of __remote_log_metadata, and that no other cluster uses the store; then "
        "the object only takes space",
    ),
    "remote-object-size": Kind(
        Severity.ERROR,
        "the object is not as long as the metadata of its segment says: it was replaced, or its upload was cut off",
        "restore the object from a version or a backup of the store; if the segment is still local on a replica, copy it from "
        "there",
    ),
    "remote-metadata-undecodable": Kind(
        Severity.ERROR,
        "the record is not one of a RemoteLogMetadataManager. A broker's metadata consumer stops at it, and "
        "stops there again after each restart: the broker then copies, deletes and finds no remote segment of the partitions "
        "whose records are in this log",
        "kafkalog remote repair-metadata --replace-undecodable LOGDIR    # on each broker with a replica, all brokers stopped",
    ),
    "open-transaction": Kind(
        Severity.WARNING,
        "the transaction is neither committed nor aborted: a read_committed consumer waits here",
        "if the broker will not come back: --open-transactions abort (Spark: openTransactions) reads the log as if a "
        "coordinator had ended the transaction",
    ),
    "open-transaction-unjudged": Kind(
        Severity.WARNING, "the log of the transaction's state, or the partition's own log, is missing, is damaged or has lost "
        "records: it is not known whether the transaction hangs",
        "name the log dirs of all brokers of the cluster; the best of several replicas is read",
    ),
    "open-transaction-ended": Kind(
        Severity.INFO,
        "the log has no marker for the transaction; the coordinator writes one when it starts: a commit if that was decided, "
        "else an abort",
        "nothing to do",
    ),
    "epochs-start-late": Kind(
        Severity.INFO, "the log start offset has moved because records were deleted, or lines of the file were lost",
        "nothing to do if records were deleted",
    ),
    "epochs-beyond-log": Kind(
        Severity.WARNING, "the log had reached the epoch's first offset: records at its end were lost", _COMPARE_LOSS,
    ),
    "epochs-before-log": Kind(
        Severity.WARNING, "the first leader epoch begins before the first segment, and the log start offset does not "
        "explain it: segments at the start of the log were lost", _COMPARE_LOSS,
    ),
    "start-before-log": Kind(
        Severity.WARNING, "the log start offset in log-start-offset-checkpoint is before the first segment, and the leader "
        "epochs do not show that segments were deleted: segments at the start of the log were lost", _COMPARE_LOSS,
    ),
    "checkpoint-beyond-log": Kind(
        Severity.WARNING, "the checkpoint's offset is after the end of the log: the log lost its end, or is an older copy",
        _COMPARE_LOSS,
    ),
    "leftover-file": Kind(
        Severity.INFO, "a compaction or split was interrupted; a broker completes it or undoes it when it starts", _RECOVER,
    ),
    "leftover-only-copy": Kind(
        Severity.WARNING, "a starting broker deletes this file, and no other file has its records",
        "kafkalog recover --salvage --dry-run {directory}    # before a broker starts",
    ),
    "leftover-after-end": Kind(
        Severity.WARNING, "a starting broker deletes this file, and the log ends before its records",
        "kafkalog dump-log {path}    # shows them; if they were lost, rename the file to its name without .deleted",
    ),
    "swap-loses-records": Kind(
        Severity.WARNING, "a starting broker replaces segments with this file, which does not hold all of their records",
        "kafkalog recover --salvage --dry-run {directory}    # before a broker starts",
    ),
    "broker-stops": Kind(
        Severity.WARNING, "a broker cannot start on this log dir; it stops with this message", _RECOVER,
    ),
    "log-dir-offline": Kind(
        Severity.WARNING, "a broker takes the whole log dir offline, with every replica in it", _RECOVER,
    ),
    "partition-stray": Kind(
        Severity.WARNING, "a broker renames the directory to -stray and starts with an empty partition", _RECOVER,
    ),
    "topic-id-mismatch": Kind(
        Severity.ERROR, "a directory was renamed, or a file is that of another partition: a broker starts, but neither leads "
        "nor follows the partition, and may not lead others either", "find out whose records it has: kafkalog fetch --limit 5 "
        "{directory}    # then rename the directory, or put its own partition.metadata back",
    ),
    "metadata-record-invalid": Kind(
        Severity.ERROR, "a broker cannot decode the record, or it does not fit the records before it: the broker logs an error "
        "and continues without it", "compare with another controller: kafkalog metadata diff {directory} OTHER",
    ),
    "metadata-gap": Kind(
        Severity.ERROR, "the records of a metadata log have consecutive offsets: records are missing, or an offset, which no "
        "checksum covers, was changed. A broker does not start with it, or loses the records after it",
        "copy the log of another controller",
    ),
    "metadata-snapshot-incomplete": Kind(
        Severity.ERROR, "a snapshot ends with a footer; a broker that loads this one does not find its end",
        "copy the snapshot of another controller, or let the broker fetch it: move the file away",
    ),
    "metadata-snapshot-mismatch": Kind(
        Severity.ERROR, "the snapshot differs from the state that the log before it gives: a broker that loads it has "
        "another state than one that reads the log", "compare with another controller: kafkalog metadata diff {path} OTHER",
    ),
    "metadata-disagree": Kind(
        Severity.ERROR, "two controllers have different records at the same offset, and not only uncommitted ones",
        "compare the states: kafkalog metadata diff A B; keep the controllers of the majority",
    ),
    "metadata-uncommitted": Kind(
        Severity.INFO, "a controller that stopped as the leader may have records that the majority does not have: they never "
                       "took effect",
        "nothing to do: the controller truncates them when it follows the new leader",
    ),
    "quorum-state-old": Kind(
        Severity.WARNING, "a controller writes an epoch into quorum-state before its log has records of that epoch: the file "
        "was lost, or is an old copy. The controller may vote twice in one epoch",
        "copy a current quorum-state only from a backup of the same node",
    ),
    "metadata-loss": Kind(
        Severity.ERROR, "a broker starts, truncates the metadata log there, and renames every partition that it then does not "
        "know to -stray: the cluster is lost without an error message", "restore the metadata log before you start a broker "
                                                                        "on it",
    ),
    "start-truncates": Kind(
        Severity.ERROR, "the broker was not stopped cleanly, so it checks the log from its recovery point on, truncates it at "
        "the first damage and deletes what follows", "kafkalog recover --salvage --dry-run {directory}    # what can be kept",
    ),
    "open-unlinked": Kind(
        Severity.WARNING, "files of a partition were removed while a broker has them open: it serves and accepts records until "
        "it rolls the segment or stops, and then they are gone",
        "kafkalog undelete --to DIR {directory}    # before the broker stops",
    ),
    "replica-missing": Kind(
        Severity.ERROR, "the directory was deleted, or its disk is not mounted: a broker creates an empty log in its place "
        "without a message", "put the directory back before a broker starts",
    ),
    "dir-lost-its-logs": Kind(
        Severity.ERROR, "the log dir was emptied or formatted, or log.dirs no longer names it: a broker creates its replicas "
        "empty, as leader if no other broker has them", "put the log dir back, or its directories, before a broker starts",
    ),
    "future-abandoned": Kind(
        Severity.ERROR, "a replica was being moved to another log dir (kafka-reassign-partitions) and its current directory is "
        "missing", "if the current directory is lost: rename this one to its name without the id and -future before a start",
    ),
    "delete-due": Kind(
        Severity.INFO, "its topic was deleted, or the replica moved: the delay begins again with each start of a broker",
        "nothing to do; to keep the records, copy the directory before a broker starts",
    ),
    "stray-kept": Kind(
        Severity.INFO, "an earlier start renamed the directory, because the metadata log did not assign the partition to this "
        "broker", "if its records are not needed: rm -r {path}",
    ),
    "elr-lost": Kind(
        Severity.WARNING, "only replicas in ISR or ELR (eligible leader replicas, KIP-966) have every acknowledged record for "
        "certain", "start the other replicas first; kafkalog diff compares their logs, and exports records that only one has",
    ),
    "broker-warns": Kind(Severity.WARNING, "a broker starts without this file", _RECOVER),
    "replica-chosen": Kind(
        Severity.INFO, "several directories hold this partition: the copy with the latest leader epoch is read, of those the "
        "longest", "name the directory of another copy to read that one",
    ),
    "offsets-compacted": Kind(
        Severity.INFO, "the cleaner removed records of an earlier time: an offset that is shown for such a time is right, but "
        "offsets that changed later are missing", "choose a later --at, or read a copy of the log dir from that time",
    ),
    "open-to-all": Kind(
        Severity.WARNING, "the server has no authentication: everyone who can reach its address can read all that it serves",
        "listen on 127.0.0.1, or only in a network that you trust",
    ),
    "too-many-connections": Kind(
        Severity.WARNING, "the server has as many connections as it accepts: a client that connects now is disconnected, and "
        "usually tries again", "end other clients; or serve on a second port with another `kafkalog serve`",
    ),
    "replica-divergence": Kind(
        Severity.ERROR, "two replicas hold different records at the same offsets: after an unclean leader election, or a crash "
        "that lost acknowledged records", "keep the copy with the latest leader epoch; the others fetch it again",
    ),
    "start-beyond-end": Kind(
        Severity.ERROR, "the checkpoint is wrong, or the log lost its end: records below the log start offset count as deleted",
        "if the log is right, delete its line from the checkpoint before a broker starts, or run `kafkalog recover "
        "--start-beyond-end keep`",
    ),
    "path-vanished": Kind(Severity.INFO, "a running broker removed it during the check", "nothing to do"),
    "file-ignored": Kind(Severity.INFO, "the name is not one of Kafka's", "nothing to do"),
    "gaps-compacted": Kind(
        Severity.INFO, "offsets are missing between batches; the keys of the records show that compaction removed them",
        "nothing to do if the topic is compacted",
    ),
    "rolled-ahead": Kind(
        Severity.INFO, "the last segment is empty and begins after the end of the previous one: `roll --to` creates such "
        "a segment, and a broker continues at its base offset", "nothing to do, unless files were removed",
    ),
    "nothing-found": Kind(
        Severity.INFO, "neither the directory nor its subdirectories contain Kafka's files", "check the path",
    ),
}
