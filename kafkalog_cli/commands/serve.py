"""kafkalog serve."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any, Self

import click

from engine.amounts import count_of, duration_text
from engine.errors import KafkalogError, UsageError
from engine.files import Files
from kafkalog_cli.app import Outcome, printable
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.interruption import INTERRUPTION
from kafkalog_cli.options import PATH, quiet_option, shown_size, verbose_option, version_option
from kafkalog_cli.remote_store import STORE, choose_store, store_config_option, store_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from engine.log.fetch.stored_groups import StoredGroup
    from engine.log.logdir.log_dirs import LogDir
    from engine.serve.catalogue import Catalogue
    from engine.serve.cluster import Address
    from engine.serve.leading import OpenLogs
    from engine.serve.server import Server

_SECTIONS = (
    Section("What is served", ("--topic", "--internal", "--follow", "--offsets", "--accept-produce")),
    Section("Addresses", ("--listen", "--advertise")),
    Section(STORE.title, (*STORE.options, "--log-dir", "--config-file")),
    Section("Output", ("--metrics-textfile", "--quiet", "--verbose")),
)
_MAIN = ("--listen", "--topic", "--offsets", "--follow")
_EXAMPLES = (
    Example("Let every Kafka client on this machine read the disks of a dead broker:",
            "kafkalog serve disk1/kafka disk2/kafka"),
    Example("Only some topics, on another port:",
            "kafkalog serve --listen 127.0.0.1:19092 -t orders -t 'payments-*' data"),
    Example("For clients in a container, which reach this machine by another name:",
            "kafkalog serve --listen 0.0.0.0:9092 --advertise host.docker.internal:9092 data"),
)
_TICK = 0.2  # seconds between two checks for signals
_METRICS_SECONDS = 15  # between two writes of --metrics-textfile


class HostPort(click.ParamType[tuple[str, int]]):
    """HOST:PORT; an IPv6 address in brackets."""

    name = "address"

    def __init__(self, least_port: int = 0) -> None:
        self._least = least_port

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Convert text to (host, port). Raises click.BadParameter."""
        if isinstance(value, tuple):
            return value
        host, colon, port = value.rpartition(":")
        if not colon or not host or len(host) > 255 or not port.isdecimal() or not self._least <= int(port) <= 65535:
            self.fail(f"{value!r} is not an address: write HOST:PORT, such as 127.0.0.1:9092", param, ctx)
        return host.removeprefix("[").removesuffix("]"), int(port)


@click.command("serve", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN)
@click.argument("paths", nargs=-1, required=True, type=PATH)
@click.option("--topic", "-t", "topics", multiple=True, metavar="NAME",
              help="Serve only this topic; a quoted pattern, such as 'orders-*', selects several. May be repeated.")
@click.option("--internal", is_flag=True,
              help="Also serve the topics that Kafka itself writes (__consumer_offsets, __transaction_state …). They can "
                   "contain secrets.")
@click.option("--follow", is_flag=True, help="A broker may be writing: look for new records before each read.")
@click.option("--accept-produce", is_flag=True,
              help="For tests: lock the log dirs, and append what producers send, as the only broker of a cluster would. "
                   "Idempotent and transactional producers work.")
@click.option("--offsets", type=click.Choice(["disk", "memory"]), default="disk", show_default=True,
              help="Committed offsets of groups at the start: those in __consumer_offsets on the disk, or none. New commits "
                   "are kept in memory only.")
@click.option("--listen", type=HostPort(), default="127.0.0.1:9092", show_default=True, metavar="HOST:PORT",
              help="Address to listen on. Port 0 selects a free port.")
@click.option("--advertise", type=HostPort(least_port=1), metavar="HOST:PORT",
              help="Address of this broker in answers to clients (advertised.listeners). Default: the one to which they "
                   "connected.")
@store_options
@click.option("--log-dir", "log_dirs", type=PATH, multiple=True, metavar="DIR",
              help="With a store: another log dir with partitions of __remote_log_metadata; may be repeated.")
@store_config_option
@click.option("--metrics-textfile", type=PATH, metavar="FILE",
              help="Write counts of requests and bytes to FILE in Prometheus text format, every 15 seconds and at the end.")
@quiet_option
@verbose_option
@version_option
def command(paths: tuple[str, ...], **values: Any) -> int:
    """Serve log dirs to Kafka clients, read-only, as a broker would.

    PATHS are log dirs, directories with log dirs, or partitions. No broker is needed. Clients read assigned partitions or
    join groups, with both isolation levels. Kafka's own tools show topics, offsets and groups. If PATHS have several replicas
    of a partition, the best one is served.

    Nothing is written, and producers get an error, unless --accept-produce is given. There is no authentication: on an
    address other than 127.0.0.1, everyone who reaches it can read everything. Ctrl-C stops the server.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a client that leaves is no reason to end
    outcome = Outcome(verbose=values["verbose"], quiet=values["quiet"])
    try:
        _serve(paths, values, outcome)
    except KafkalogError as error:
        outcome.error(error)
    except BrokenPipeError:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the reader of stdout left: end as all commands do then
        signal.raise_signal(signal.SIGPIPE)
    return outcome.finish()


def _serve(paths: tuple[str, ...], values: dict[str, Any], outcome: Outcome) -> None:
    from engine.log.logdir.log_dirs import find_log_dirs, refuse_unrelated
    from engine.log.logdir.metrics import check_textfile
    from engine.serve.catalogue import Catalogue, Wanted
    from engine.serve.cluster import Address
    from engine.serve.server import Server

    files, store = Files(), choose_store(values)
    if values["metrics_textfile"] is not None:
        check_textfile(files, values["metrics_textfile"])
    refuse_unrelated(files, paths)
    wanted, log_dirs = Wanted(values["topics"], values["internal"]), find_log_dirs(files, paths)
    remote = None
    if store is not None:
        more = tuple(one.path for one in log_dirs)  # logs of __remote_log_metadata are in any of them
        remote = store._replace(log_dirs=(*store.log_dirs, *more)).open(files, outcome.finding)
    with ExitStack() as opened:
        logs = opened.enter_context(_open_logs(files, log_dirs, outcome)) if values["accept_produce"] else None
        catalogue = opened.enter_context(closing(Catalogue(
            files, log_dirs, wanted, outcome.finding, failed=outcome.error, is_followed=values["follow"] or logs is not None,
            remote=remote,
        )))  # fmt: skip
        leader = None
        if logs is not None:
            from engine.serve.leading import Leader, producer_ids

            catalogue.open_logs, leader = logs.by_directory, Leader(catalogue, producer_ids())
        _refuse_without_topics(catalogue, wanted)
        for finding in catalogue.choices():
            outcome.finding(finding)
        groups = _groups_on_disk(catalogue, outcome) if values["offsets"] == "disk" else ()
        advertised = None if values["advertise"] is None else Address(*values["advertise"])
        server = opened.enter_context(closing(Server(
            catalogue, Address(*values["listen"]), advertised=advertised, groups=groups, leader=leader,
        )))  # fmt: skip
        with INTERRUPTION, INTERRUPTION.held():  # before the first line: whoever has read it may send a signal
            server.start()
            _announce(catalogue, server, advertised, values, outcome)
            _run(server, values, files, catalogue.note)
    if not values["quiet"]:
        _say_total(server)


@contextmanager
def _open_logs(files: Files, log_dirs: Sequence[LogDir], outcome: Outcome) -> Iterator[OpenLogs]:
    from engine.log.session import OpenOptions, session
    from engine.serve.leading import OpenLogs

    with session(files, log_dirs, OpenOptions()) as logs, closing(OpenLogs(logs, outcome.error)) as opened:
        yield opened


def _groups_on_disk(catalogue: Catalogue, outcome: Outcome) -> Iterable[StoredGroup]:
    from engine.log.fetch.stored_groups import read_groups

    return read_groups(catalogue.files, [one.path for one in catalogue.log_dirs], outcome.finding).values()


def _refuse_without_topics(catalogue: Catalogue, wanted: Any) -> None:
    """Raise UsageError if there is nothing to serve."""
    if catalogue.topics:
        return
    internal = None if wanted.is_internal else "--internal also serves the topics that Kafka itself writes"
    if not wanted.topics:
        raise UsageError("the log dirs have no partition", internal)
    from engine.log.logdir.log_dirs import topics_found

    there = {one.name.topic for log_dir in catalogue.log_dirs for one in log_dir.partitions()}
    raise UsageError(f"no topic matches {' or '.join(wanted.topics)}", topics_found(there) or internal)


def _announce(
    catalogue: Catalogue, server: Server, advertised: Address | None, values: dict[str, Any], outcome: Outcome
) -> None:  # fmt: skip
    from shlex import quote

    from engine.serve.server import open_to_all

    if (warning := open_to_all(server.address)) is not None:
        outcome.finding(warning)
    if values["quiet"]:
        return
    topics, partitions = len(catalogue.topics), sum(1 for _ in catalogue.partitions)
    cluster = catalogue.cluster.cluster_id
    of = "" if cluster is None else f" of cluster {printable(cluster)}"
    reached = printable(quote(str(advertised or server.address)))  # for a shell: brackets are a pattern there
    what = "with producers" if values["accept_produce"] else "read-only"
    first = next(iter(catalogue.topics))
    click.echo(f"serving {count_of(topics, 'topic')}, {count_of(partitions, 'partition')}{of} at {server.address}, {what}")
    click.echo(f"  kcat -b {reached} -C -e -t {first}")
    click.echo(f"  kafka-console-consumer.sh --bootstrap-server {reached} --from-beginning --topic {first}")
    click.echo("Ctrl-C stops the server")
    sys.stdout.flush()


def _run(server: Server, values: dict[str, Any], files: Files, failed: Callable[[KafkalogError], object]) -> None:
    """Serve until a signal comes. `failed`: called if the metrics cannot be written, which does not end the server."""
    is_live = sys.stderr.isatty() and not values["quiet"]
    written = time.monotonic()
    with ExitStack() as shown:
        live = shown.enter_context(_Live(server)) if is_live else None
        while INTERRUPTION.number is None:
            time.sleep(_TICK)
            if live is not None:
                live.refresh()
            if values["metrics_textfile"] is not None and time.monotonic() - written >= _METRICS_SECONDS:
                _write_metrics(server, values["metrics_textfile"], files, failed)
                written = time.monotonic()
    if values["metrics_textfile"] is not None:
        _write_metrics(server, values["metrics_textfile"], files, failed)


_WIDE = 80  # columns of a terminal that shows all of the table


class _Live:
    """A table of the connections on a terminal; a narrow one shows less of it."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True)
        self._live = Live(self._table(), console=self._console, transient=True, auto_refresh=False)
        self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._live.stop()

    def refresh(self) -> None:
        """Show what the connections did so far."""
        self._live.update(self._table(), refresh=True)

    def _table(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        width = self._console.width
        titles = ("client", "requests", "sent", "from", "last")[: 5 if width >= _WIDE else 3]
        table = Table(box=None, pad_edge=False)
        for title in titles:
            most = max(8, width - (68 if width >= _WIDE else 22)) if title == "client" else None
            table.add_column(title, justify="right" if title in ("requests", "sent") else "left", no_wrap=True, max_width=most)
        for one in sorted(self._server.connections.copy(), key=lambda one: one.peer):
            counts = one.counts
            sent = shown_size(counts.sent)
            peer = f"{one.peer[0]}:{one.peer[1]}"
            row = (Text(printable(counts.client)), str(counts.requests), sent, peer, counts.last)
            table.add_row(*row[: len(titles)])
        return table


def _say_total(server: Server) -> None:
    totals = server.totals
    took = duration_text(totals.ms)
    connections, requests = count_of(totals.connections, "connection"), count_of(sum(totals.requests.values()), "request")
    refused = f" ({totals.refused} more refused)" if totals.refused else ""
    click.echo(f"served {connections}{refused}, {requests}, {shown_size(totals.sent)} in {took}")


def _write_metrics(server: Server, path: str, files: Files, failed: Callable[[KafkalogError], object]) -> None:
    from engine.log.logdir.metrics import write_gauges

    totals = server.totals
    rows = [("kafkalog_serve_requests", "requests answered", {"api": api}, count) for api, count in totals.requests.items()]
    rows += [
        ("kafkalog_serve_connections_total", "connections since the start", {}, totals.connections),
        ("kafkalog_serve_connections_refused_total", "connections refused because there were too many", {}, totals.refused),
        ("kafkalog_serve_connections", "connections now", {}, len(server.connections)),
        ("kafkalog_serve_sent_bytes", "bytes of answers", {}, totals.sent),
    ]
    try:
        write_gauges(files, path, rows)
    except KafkalogError as error:
        failed(error)
