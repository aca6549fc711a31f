"""Run the steps of an append case (cases/README.md) with our engine, and print the answers of the real engine's driver."""

from __future__ import annotations

from engine.log.append.analysis import append_as_follower, append_as_leader
from engine.log.append_errors import AppendRefused, RecordValidationFailed
from engine.log.producers.entry import AppendOrigin

ORIGINS = {origin.value: origin for origin in AppendOrigin}


def frames(path):
    """Yield the frames of a file: a length of 4 bytes, then the batches."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        found.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return found


def append(log, step, frame, *, follower=False, leader_epoch=0):
    """Append a frame in the role of the step (leader, follower, …)."""
    role, epoch = step.get("as", "follower" if follower else "client"), step.get("leaderEpoch", leader_epoch)
    if role == "follower":
        return append_as_follower(log, frame, epoch)
    version = step.get("transactionVersion", -1 if role == "client" else 0)
    return append_as_leader(log, frame, epoch, ORIGINS[role], version)


def answer(log, step, found, **defaults):
    """Return the output of the real engine's driver for a step."""
    if "now" in step:
        log.now = step["now"]
    if "roll" in step:
        return {"rolled": log.roll().base_offset}
    if "flush" in step:
        log.flush(force_flush_active_segment=True)
        return {"recoveryPoint": log.recovery_point}
    if "highWatermark" in step:
        return {"highWatermark": log.update_high_watermark(step["highWatermark"])}
    if "assignEpoch" in step:
        log.leader_epoch_cache.assign(step["assignEpoch"], log.log_end_offset)
        return {"assignedEpoch": step["assignEpoch"]}
    try:
        info = append(log, step, found[step["frame"]], **defaults)
    except RecordValidationFailed as error:
        errors = [{"index": index, "message": text} for index, text in error.records]
        return {"error": f"{error.kafka_text} <- {error.cause.kafka_text}", "recordErrors": errors}
    except AppendRefused as error:
        return {"error": error.kafka_text}
    said = {
        "firstOffset": info.first_offset, "lastOffset": info.last_offset, "maxTimestamp": info.max_timestamp,
        "logAppendTime": info.log_append_time, "logStartOffset": info.log_start_offset,
        "sourceCompression": info.source_compression, "validBytes": info.valid_size, "logEndOffset": log.log_end_offset,
    }  # fmt: skip
    return said if info.last_leader_epoch is None else said | {"lastLeaderEpoch": info.last_leader_epoch}


def producers(log):
    """Return the producers in the format of the real engine's driver."""
    described = []
    log.producer_state.load_last_batches(list(log.producer_state.producers))
    for entry in sorted(log.producer_state.producers.values(), key=lambda entry: entry.producer_id):
        one = {
            "producerId": entry.producer_id, "producerEpoch": entry.producer_epoch,
            "coordinatorEpoch": entry.coordinator_epoch, "lastTimestamp": entry.last_timestamp,
        }  # fmt: skip
        if entry.current_txn_first_offset is not None:
            one["currentTxnFirstOffset"] = entry.current_txn_first_offset
        one["batches"] = [
            {"lastSeq": b.last_seq, "lastOffset": b.last_offset, "offsetDelta": b.offset_delta, "timestamp": b.timestamp}
            for b in entry.batches
        ]
        described.append(one)
    return described
