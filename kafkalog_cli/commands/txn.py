"""kafkalog txn."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from engine.amounts import count_of, part_of, time_text
from engine.dump.json_stream import text_field
from engine.errors import UsageError, argument
from kafkalog_cli.engine_options import WHICH, choice_from, choice_options, config_file_option, paths_from, settings_from
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import PATH_OR_URL, Duration, files_for, format_option, now_option, version_option
from kafkalog_cli.show import given, number_cell, show, time_cell, time_fields
from kafkalog_cli.table import Column

if TYPE_CHECKING:
    from engine.files import ReadOnlyFiles
    from engine.log.fetch.coordinator_logs import IdState
    from engine.log.logdir.log_dirs import LogDir
    from engine.overview.producers import ProducerIn
    from engine.overview.transactions import Coordinators, OpenIn, Verdict
    from kafkalog_cli.show import Output

_SECTIONS = (
    WHICH,
    Section("What is listed", ("--state",)),
    Section("What hangs", ("--older-than", "--now", "--commands")),
    Section("Settings", ("--config-file",)),
    Section("Output", ("--format",)),
)
_MAIN = ("--topic", "--older-than", "--commands", "--format")
_EXAMPLES = (
    Example("Which transactions are open, and why?", "kafkalog txn list data-1 data-2"),
    Example("Which of them will never end?", "kafkalog txn hanging data-1 data-2"),
    Example("The commands that end them:", "kafkalog txn hanging --commands data-1 data-2"),
    Example("What did a transactional id do?", "kafkalog txn show payments-7 data-1 data-2"),
    Example("Which transactional id has this producer id?", "kafkalog txn producers data-1 data-2 | grep 4711"),
)
_STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence")
_MAX_TIMEOUT = 15 * 60_000  # ms: --max-transaction-timeout of kafka-transactions.sh find-hanging
_ID_COLUMNS = (
    Column("transactional id", is_text=True, shrinks="+"), Column("state", is_text=True), Column("producer", 2),
    Column("epoch", 3), Column("timeout ms", 6), Column("started", 5, is_text=True), Column("last update", 4, is_text=True),
    Column("partitions", 1, is_text=True, shrinks="+"),
)  # fmt: skip
_OPEN_COLUMNS = (
    Column("partition", is_text=True, shrinks="-"), Column("offset"), Column("producer", 6), Column("epoch", 5),
    Column("records", 2), Column("holds back", 1), Column("first record", 3, is_text=True),
    Column("last record", 4, is_text=True), Column("verdict", is_text=True, colour="yellow"),
)  # fmt: skip
_PRODUCER_COLUMNS = (
    Column("partition", is_text=True, shrinks="-"), Column("producer"), Column("epoch", 3), Column("sequence", 5),
    Column("last offset", 4), Column("last record", 2, is_text=True), Column("coordinator epoch", 6), Column("open since", 1),
    Column("transactional id", is_text=True, shrinks="+"),
)  # fmt: skip


@click.command("txn", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN)
@click.argument("action", type=click.Choice(["list", "hanging", "show", "producers"]))
@click.argument("paths", nargs=-1, type=PATH_OR_URL)
@choice_options
@click.option("--state", "states", type=click.Choice(_STATES, case_sensitive=False), multiple=True,
              help="With list: only transactional ids in this state, and what they have open; may be repeated.")
@click.option("--older-than", type=Duration(), default=_MAX_TIMEOUT, metavar="DURATION",
              help="Only a transaction whose last batch is older can be hanging. Default: 15m, as kafka-transactions.sh.")
@now_option
@click.option("--commands", "is_plan", is_flag=True, help="With hanging: print only the commands that end the transactions.")
@config_file_option("log.dirs where no PATHS are given")
@format_option
@version_option
def command(action: str, paths: tuple[str, ...], form: str, **values: Any) -> int:
    """Show transactions: the states that coordinators have, what is open in partitions, and what will never end.

    `txn list PATH…` lists the transactional ids and the open transactions. `txn hanging PATH…` lists only transactions that no
    coordinator will end; consumers with read_committed wait at them forever (exit status 4 if there are any, or some that
    cannot be judged). `txn show ID PATH…` shows what __transaction_state still has of a transactional id, and its open
    transactions. `txn producers PATH…` lists the producers that the partitions know, also those that a broker has forgotten.

    PATHS are log dirs of one cluster, or trees of them; of several replicas of a log the best one is read. txn needs the logs
    of __transaction_state: if one is missing, is damaged or has lost records, a transaction is `unknown`, not hanging. It also
    reads beside a running broker, and changes nothing. Clients set the times of records, so the times of a transaction can be
    wrong.

    Verdicts: `ongoing`: the coordinator aborts it after its timeout; `prepared`: its end is decided, and the coordinator writes
    the marker; `hanging`: no transactional id has the producer, or its transaction does not list the partition;
    `hanging-committed`, `hanging-aborted`: the same, and the coordinator has reported this end to the producer.
    """
    if values["is_plan"] and (action != "hanging" or form != "text"):
        raise click.UsageError("--commands belongs to `txn hanging` with text output")
    if values["states"] and action != "list":
        raise click.UsageError("--state belongs to `txn list`")
    if action == "show" and not paths:
        raise click.UsageError("name a transactional id: kafkalog txn show ID PATH…")
    return show(form, lambda output: _show(action, paths, values, output))


class _Open(NamedTuple):
    """An open transaction, and why it is open."""

    found: OpenIn
    verdict: Verdict
    why: str


def _show(action: str, paths: tuple[str, ...], values: dict[str, Any], output: Output) -> None:
    from engine.discovery.patterns import expand
    from engine.files import now_ms
    from engine.log.logdir.log_dirs import choose_partitions, find_log_dirs
    from engine.overview.brokers import with_metadata
    from engine.overview.transactions import HANGING, Coordinators

    transactional_id = paths[0] if action == "show" else None
    named = paths_from(paths[1:] if action == "show" else paths, settings_from(values["config_file"], ()))
    files, now = files_for(named), now_ms() if values["now"] is None else values["now"]
    log_dirs = find_log_dirs(files, [path for pattern in named for path in expand(files, pattern)], output.outcome.finding)
    broker = with_metadata(files, log_dirs, now)
    for finding in () if broker is None else broker.metadata_damage:
        output.outcome.finding(finding)
    metadata = None if broker is None else broker.cluster.metadata
    coordinators = Coordinators(files, [one.path for one in log_dirs], metadata, output.outcome.finding)
    chosen = choose_partitions(log_dirs, choice_from(values))
    if action == "producers":
        _show_producers(files, chosen, coordinators, output)
        return
    if transactional_id is not None:
        _show_id(transactional_id, coordinators, output)
    elif action == "list":
        _show_ids(coordinators, values["states"], output)
    found = _judged(files, chosen, coordinators, now - values["older_than"], output)
    if transactional_id is not None:
        state = coordinators.ids.get(transactional_id)
        found = [one for one in found if state is not None and state is coordinators.id_of(one.found.transaction.producer_id)]
    if values["states"]:
        found = [one for one in found if _is_in(coordinators.id_of(one.found.transaction.producer_id), values["states"])]
    hanging = [one for one in found if one.verdict in HANGING]
    unjudged = [one for one in found if _is_unjudged(one, now - values["older_than"])] if action == "hanging" else []
    for one in unjudged:
        output.outcome.finding(one.found.unjudged(one.why))
    if values["is_plan"]:
        _show_commands(hanging, output)
    elif hanging or not unjudged:
        is_all = action != "hanging"
        _show_open(found if is_all else hanging, coordinators, output, "open" if is_all else "hanging")
    if action == "hanging" and not values["is_plan"]:
        _show_unjudged(len(unjudged), coordinators, output)
        _show_others([one for one in found if one.verdict not in HANGING and one not in unjudged], output)
    if hanging and action == "hanging":
        output.outcome.at_least(4)


def _is_unjudged(one: _Open, before: int) -> bool:
    """Return whether it is not known if a transaction hangs that is old enough for it."""
    from engine.overview.transactions import Verdict

    return one.verdict is Verdict.UNKNOWN and one.found.transaction.last_ms < before


def _judged(
    files: ReadOnlyFiles, log_dirs: list[LogDir], coordinators: Coordinators, before: int, output: Output
) -> list[_Open]:
    from engine.overview.transactions import open_transactions

    return [
        _Open(one, *coordinators.judge(one, before))
        for one in open_transactions(files, log_dirs, output.outcome.finding, output.outcome.error)
    ]


# ---- transactional ids


def _is_in(state: IdState | None, names: tuple[str, ...]) -> bool:
    return not names or (state is not None and _state(state) in names)


def _show_ids(coordinators: Coordinators, names: tuple[str, ...], output: Output) -> None:
    states = [coordinators.ids[name] for name in sorted(coordinators.ids) if _is_in(coordinators.ids[name], names)]
    if output.stream is not None:
        for state in states:
            output.stream.put("transaction", _id_fields(state))
        return
    logs = f"__transaction_state: {part_of(len(coordinators.logs), coordinators.partitions, 'partition')} here"
    output.line(f"{count_of(len(states), 'transactional id')}; {logs}")
    if states:
        output.table(_ID_COLUMNS, [_id_cells(state.transactional_id, state) for state in states])


def _id_cells(name: str, state: IdState) -> list[str]:
    partitions = " ".join(f"{topic}-{number}" for topic, number in state.partitions)
    return [
        name, _state(state) or "?", str(state.producer_id), str(state.epoch), str(state.timeout_ms),
        time_cell(given(state.start_ms)), time_cell(given(state.updated_ms)), partitions,
    ]  # fmt: skip


def _state(state: IdState) -> str | None:
    return None if state.state is None else state.state.name


def _id_fields(state: IdState) -> dict[str, object]:
    return {
        "transactional_id": state.transactional_id, "state": _state(state), "producer_id": state.producer_id,
        "producer_epoch": state.epoch, "timeout_ms": state.timeout_ms, **time_fields("start_time", given(state.start_ms)),
        **time_fields("last_update", given(state.updated_ms)),
        "partitions": [{"topic": topic, "partition": number} for topic, number in state.partitions],
        **text_field("log", state.record.log), "log_offset": state.record.offset,
    }  # fmt: skip


def _show_id(name: str, coordinators: Coordinators, output: Output) -> None:
    """Print the states that a transactional id had, the oldest first. Raises UsageError if none is known."""
    from engine.log.fetch.coordinator_logs import IdState

    records = [record for record in coordinators.records() if record.transactional_id == name]
    if not records:
        raise UsageError(f"no record of transactional id {name}", _advice(name, coordinators))
    cells = []
    for record in records:
        state, time = None if record.value is None else IdState.of(record, record.value), time_text(record.time_ms)
        if output.stream is None:
            cells.append([time, "removed"] if state is None else _id_cells(time, state))
        elif state is not None:
            output.stream.put("transaction", _id_fields(state))
    if cells:
        columns = (Column("time", is_text=True), *_ID_COLUMNS[1:])
        output.line(f"{name}: {count_of(len(cells), 'record')} in {records[0].log}")
        output.table(columns, [[*row, *[""] * (len(columns) - len(row))] for row in cells])


def _advice(name: str, coordinators: Coordinators) -> str:
    from engine.log.fetch.coordinator_logs import TRANSACTION_TOPIC, coordinator_partition

    if coordinators.partitions:
        number = coordinator_partition(name, coordinators.partitions)
        if number not in coordinators.logs:
            return f"name a log dir with {TRANSACTION_TOPIC}-{number}, which has the records of this transactional id"
    return "kafkalog txn list PATH…    # lists the transactional ids"


# ---- open transactions


def _show_open(found: list[_Open], coordinators: Coordinators, output: Output, which: str) -> None:
    if output.stream is not None:
        for one in found:
            output.stream.put("open-transaction", _open_fields(one, coordinators))
        return
    output.line(f"{count_of(len(found), 'transaction')} {which}" if found else f"no transaction is {which}")
    if found:
        output.table(_OPEN_COLUMNS, [_open_cells(one) for one in found])
    for one in found:
        output.line(f"{one.found.topic}-{one.found.partition} at offset {one.found.transaction.first_offset}: {one.why}")
        for line in _commands(one):
            output.line(f"  {line}")


def _open_cells(one: _Open) -> list[str]:
    found, transaction = one.found, one.found.transaction
    held = str(found.held) if transaction.first_offset <= found.stable else ""
    return [
        f"{found.topic}-{found.partition}", str(transaction.first_offset), str(transaction.producer_id), str(transaction.epoch),
        str(transaction.records), held, time_cell(transaction.since_ms), time_cell(given(transaction.last_ms)),
        one.verdict.value,
    ]  # fmt: skip


def _open_fields(one: _Open, coordinators: Coordinators) -> dict[str, object]:
    found, transaction = one.found, one.found.transaction
    state = coordinators.id_of(transaction.producer_id)
    return {
        **text_field("path", found.path), "topic": found.topic, "partition": found.partition,
        "producer_id": transaction.producer_id, "producer_epoch": transaction.epoch,
        "transactional_id": None if state is None else state.transactional_id, "start_offset": transaction.first_offset,
        "last_offset": transaction.last_offset, "records": transaction.records, "bytes": transaction.size,
        **time_fields("start_time", transaction.since_ms), **time_fields("last_time", given(transaction.last_ms)),
        "last_stable_offset": found.stable, "held_records": found.held, "verdict": one.verdict.value, "why": one.why,
    }  # fmt: skip


def _commands(one: _Open) -> list[str]:
    """What ends a hanging transaction. An abort drops records that the coordinator confirmed as committed: a comment."""
    from engine.overview.transactions import HANGING, Verdict

    found, transaction = one.found, one.found.transaction
    if one.verdict not in HANGING:
        return []
    named = f"--topic {argument(found.topic)} --partition {found.partition}"
    abort = f"kafka-transactions.sh --bootstrap-server HOST:9092 abort {named} --start-offset {transaction.first_offset}"
    if one.verdict is not Verdict.HANGING_COMMITTED:
        return [abort]
    reads = f"--offset {transaction.first_offset}:{transaction.last_offset + 1} --producer-id {transaction.producer_id}"
    dump = f"kafkalog dump-log --print-data-log {reads} {argument(found.path)}"
    drops = f"# reported as committed: an abort drops {count_of(transaction.records, 'record')}. Keep them first:"
    return [drops, dump, f"# {abort}"]


def _show_commands(hanging: list[_Open], output: Output) -> None:
    for one in hanging:
        for line in _commands(one):
            output.line(line)


def _show_unjudged(count: int, coordinators: Coordinators, output: Output) -> None:
    """In text, count the transactions of which it is not known whether they hang, and print the next step."""
    from engine.log.fetch.coordinator_logs import TRANSACTION_TOPIC

    if output.stream is not None or not count:
        return
    without = "" if coordinators.logs else f" without {TRANSACTION_TOPIC}"
    output.line(f"{count_of(count, 'open transaction')}, which cannot be judged{without}")
    output.line(f"  name the log dirs with sound logs of {TRANSACTION_TOPIC} too, best of all brokers")
    output.line(f"  kafkalog ls --topic {TRANSACTION_TOPIC} PATH…    # finds them")


def _show_others(others: list[_Open], output: Output) -> None:
    """In text, count the transactions that do not hang."""
    if output.stream is None and others:
        kinds = Counter(one.verdict.value for one in others)
        output.line("open, not hanging: " + ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))


# ---- producers


def _show_producers(files: ReadOnlyFiles, log_dirs: list[LogDir], coordinators: Coordinators, output: Output) -> None:
    from engine.overview.producers import producers_in

    found = producers_in(files, log_dirs, output.outcome.finding, output.outcome.error)
    if output.stream is not None:
        for one in found:
            output.stream.put("producer-state", _producer_fields(one, coordinators))
        return
    rows = [_producer_cells(one, coordinators) for one in found]
    partitions, producers = (len({row[at] for row in rows}) for at in (0, 1))
    output.line(f"{count_of(producers, 'producer')} in {count_of(partitions, 'partition')}")
    if rows:
        output.table(_PRODUCER_COLUMNS, rows)


def _producer_cells(one: ProducerIn, coordinators: Coordinators) -> list[str]:
    state, owner, since = one.state, coordinators.id_of(one.state.producer_id), one.state.current_txn_first_offset
    return [
        f"{one.topic}-{one.partition}", str(state.producer_id), str(state.producer_epoch), number_cell(given(state.last_seq)),
        number_cell(given(state.last_data_offset)), time_cell(given(state.last_timestamp)),
        number_cell(given(state.coordinator_epoch)), number_cell(since), "" if owner is None else owner.transactional_id,
    ]  # fmt: skip


def _producer_fields(one: ProducerIn, coordinators: Coordinators) -> dict[str, object]:
    state, owner = one.state, coordinators.id_of(one.state.producer_id)
    return {
        **text_field("path", one.path), "topic": one.topic, "partition": one.partition, "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch, "transactional_id": None if owner is None else owner.transactional_id,
        "last_sequence": given(state.last_seq), "last_offset": given(state.last_data_offset),
        **time_fields("last_time", given(state.last_timestamp)), "coordinator_epoch": given(state.coordinator_epoch),
        "start_offset": state.current_txn_first_offset,
    }  # fmt: skip
