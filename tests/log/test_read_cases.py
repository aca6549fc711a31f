"""The cases fetch-* and lookup-* of the real engine: every query gets its answer, whatever opens the log."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest

from engine.config.topic import LogConfig
from engine.files import Files, ReadOnlyFiles
from engine.log.errors import OffsetOutOfRange
from engine.log.fetch import reading as fetch
from engine.log.fetch.reading import FetchIsolation
from engine.log.fetch.view import PartitionView
from tests.support.corpus import corpus_directory
from tests.support.floors import saw_enough
from tests.support.logs import open_log

FOLDERS = sorted({path.parent for path in corpus_directory().rglob("queries.jsonl")})
SPECIAL = {
    "latest": fetch.LATEST, "earliest": fetch.EARLIEST, "max": fetch.MAX_TIMESTAMP, "earliest-local": fetch.EARLIEST_LOCAL,
    "latest-tiered": fetch.LATEST_TIERED, "earliest-pending-upload": fetch.EARLIEST_PENDING_UPLOAD,
}  # fmt: skip
ERRORS = {OffsetOutOfRange: "org.apache.kafka.common.errors.OffsetOutOfRangeException"}


def view(case, directory):
    if not directory.exists():
        pytest.skip("a view needs a log")
    return PartitionView(
        ReadOnlyFiles(), str(directory), pytest.fail, log_start_offset=case.get("start"), high_watermark=case.get("highWatermark")
    )


def unified_log(case, directory):
    log = open_log(
        Files(), str(directory), LogConfig.of({name: str(value) for name, value in case["config"].items()}), now=case["now"],
        clean_shutdown=True, log_start_offset=case.get("start", 0),
    )
    log.update_high_watermark(case.get("highWatermark", log.log_end_offset))
    return log


def fetched(log, query):
    try:
        data = fetch.read(
            log, query["offset"], query.get("maxBytes", 1 << 20), FetchIsolation(query.get("isolation", "log_end")),
            min_one_message=query.get("minOneMessage", True),
        )
    except OffsetOutOfRange as error:
        return {"error": f"{ERRORS[type(error)]}: {error}"}
    content = b"" if data.file is None else data.file.read_exactly(data.place.position, data.size)
    answer = {
        "size": data.size, "offset": data.place.message_offset, "segmentBaseOffset": data.place.segment_base_offset,
        "position": data.place.position, "firstEntryIncomplete": data.first_entry_incomplete,
        "sha256": hashlib.sha256(content).hexdigest(),
    }  # fmt: skip
    if len(content) >= 17 and len(content) >= 12 + int.from_bytes(content[8:12], "big"):
        answer["firstBatchBaseOffset"] = data.place.message_offset
    if data.aborted is not None:
        answer["abortedTransactions"] = [
            {"producerId": txn.producer_id, "firstOffset": txn.first_offset} for txn in data.aborted
        ]
    return answer


def looked_up(log, query):
    timestamp = query["timestamp"]
    found = fetch.fetch_offset_by_timestamp(log, SPECIAL.get(timestamp, timestamp))
    if found is None:
        return {"found": False}
    answer = {"found": True, "timestamp": found.timestamp, "offset": found.offset}
    return answer if found.leader_epoch is None else {**answer, "leaderEpoch": found.leader_epoch}


@pytest.mark.parametrize("opener", [view, unified_log])
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_same_answers_as_kafka(folder, opener, tmp_path):
    case = json.loads((folder / "case.json").read_text())
    before = (folder / case["beforeDir"]).resolve() / "topic-0"
    directory = tmp_path / "topic-0"
    if before.exists():
        shutil.copytree(before, directory)
    elif opener is unified_log:
        directory.mkdir()
    log = opener(case, directory)
    result = case["result"]
    assert (log.log_start_offset, log.log_end_offset) == (result["logStartOffset"], result["logEndOffset"])
    ask = fetched if case["operation"] == "fetch" else looked_up
    queries, answers = (
        [json.loads(line) for line in (folder / name).read_text().splitlines()] for name in ("queries.jsonl", "answers.jsonl")
    )
    assert len(queries) == len(answers) > 0
    wrong = [(query, answer, got) for query, answer in zip(queries, answers, strict=True) if (got := ask(log, query)) != answer]
    assert wrong == []


def test_there_are_cases():
    saw_enough("cases of reading", len(FOLDERS), 12)
