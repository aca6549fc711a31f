"""The program `kafkalog`: a group whose commands are imported when used, so that --help is fast."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import signal
import sys
from typing import Any

import click

from kafkalog_cli.help import Example, LazyGroup, show_short_help
from kafkalog_cli.options import version_option
from kafkalog_cli.streams import colour_choice, prepare_streams

# name → (module, one line of help)
COMMANDS = {
    "append": ("kafkalog_cli.commands.append", "Append records to a partition."),
    "check": ("kafkalog_cli.commands.check", "Say whether a broker would start, and what it would do."),
    "completion": ("kafkalog_cli.commands.completion", "Print the completion script of a shell."),
    "compact": ("kafkalog_cli.commands.compact", "Delete records whose key has a later value, as the log cleaner does."),
    "delete-records": ("kafkalog_cli.commands.delete_records", "Delete the oldest records of partitions."),
    "diff": ("kafkalog_cli.commands.diff", "Compare replicas: where they fork, what only one of them has."),
    "du": ("kafkalog_cli.commands.du", "Show what uses the space of log dirs, and what can be removed."),
    "dump-log": ("kafkalog_cli.commands.dump_log", "Print Kafka's files as text or JSON; a drop-in for kafka-dump-log."),
    "explain": ("kafkalog_cli.commands.explain", "Explain the bytes of a file, field by field."),
    "export": ("kafkalog_cli.commands.export", "Write records to files: JSON lines, CSV, Arrow, Parquet."),
    "verify": ("kafkalog_cli.commands.verify", "Check the indexes and snapshots of partitions against their logs."),
    "ls": ("kafkalog_cli.commands.ls", "List brokers, log dirs, topics and partitions: offsets, sizes, what is unusual."),
    "recover": ("kafkalog_cli.commands.recover", "Repair partitions as a broker does after a crash."),
    "fetch": ("kafkalog_cli.commands.fetch", "Read records as a consumer does, without a broker."),
    "grep": ("kafkalog_cli.commands.grep", "Search the records of logs."),
    "groups": ("kafkalog_cli.commands.groups", "Show groups and their committed offsets, now or at an earlier time."),
    "help": ("kafkalog_cli.commands.help", "Show the help of a command."),
    "metadata": ("kafkalog_cli.commands.metadata", "Show, compare and verify the metadata log of a cluster."),
    "remote": ("kafkalog_cli.commands.remote", "Show, check and restore tiered storage."),
    "report": ("kafkalog_cli.commands.report", "Write an HTML page about log dirs, for the post-mortem."),
    "requests": ("kafkalog_cli.commands.requests", "Decode captured requests and responses of Kafka's protocol."),
    "restore": ("kafkalog_cli.commands.restore", "Undo what a command did, from its quarantine."),
    "retain": ("kafkalog_cli.commands.retain", "Delete the segments that retention allows."),
    "roll": ("kafkalog_cli.commands.roll", "Begin a new segment."),
    "serve": ("kafkalog_cli.commands.serve", "Serve log dirs to Kafka clients, read-only."),
    "spark": ("kafkalog_cli.commands.spark", "Verify, recover, compact, export or import many log dirs on Spark."),
    "truncate": ("kafkalog_cli.commands.truncate", "Truncate partitions to an offset."),
    "txn": ("kafkalog_cli.commands.txn", "Show transactions: of coordinators, open in partitions, hanging."),
    "undelete": ("kafkalog_cli.commands.undelete", "Bring back what was deleted and is still on the disk."),
}

ALIASES = {"verify-index": "verify"}  # another name → the command with its help page

_OLD_KERNELS = "the compiled kernels are older than the sources: `make build` (or pip install again)"


_EXAMPLES = (
    Example("What a log directory holds, batch by batch:", "kafkalog dump-log /var/lib/kafka/data/orders-7"),
    Example("Everything about a command:", "kafkalog help dump-log"),
)


@click.group(
    cls=LazyGroup, table=COMMANDS, aliases=ALIASES, examples=_EXAMPLES, invoke_without_command=True,
    statuses={"1": "problems repaired; of a command that changes nothing, see its help"},
    context_settings={"max_content_width": 100},
)  # fmt: skip
@version_option
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Read, check, repair and maintain the files that Apache Kafka keeps in its log directories, without a broker."""
    show_short_help(ctx)


def main(arguments: list[str] | None = None) -> Any:
    """Run the program; ends the process with its exit status."""
    if arguments is None:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `kafkalog … | head` ends quietly, like cat
        atexit.register(gc.freeze)  # at its end the process needs no garbage collection
        prepare_streams()
        _allow_many_files()
    try:
        status = cli.main(args=arguments, prog_name="kafkalog", standalone_mode=False, color=colour_choice())
        sys.stdout.flush()
        failure = getattr(sys.stdout, "failure", None)  # see tolerate_output_failure
        if failure is not None:
            why = failure.strerror or failure
            _abandon("output-failed", f"cannot write the output: {why}; the command itself ran to its end", arguments)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except click.ClickException as error:
        _show(error)
        sys.exit(error.exit_code)
    except OSError as error:  # files fail with a KafkalogError: this is stdout or stderr
        _abandon("output-failed", f"cannot write the output: {error.strerror or error}", arguments)
    except MemoryError:
        less = _less_memory(sys.argv[1:] if arguments is None else arguments)
        _abandon("out-of-memory", f"not enough memory: {less}", arguments)
    except (ImportError, TypeError) as error:
        problem = _problem_of_kernels(error)
        if problem is None:
            raise
        _abandon(*problem, arguments)
    sys.exit(status if isinstance(status, int) else 0)


def _allow_many_files() -> None:
    """Raise the limit of open files to the hard limit: shells start with 1024."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # the system grants no more: continue with the present limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _show(error: click.ClickException) -> None:
    """Print as click does, with parts of the command line escaped for a terminal."""
    from kafkalog_cli.app import printable

    text = "\n".join(map(printable, error.format_message().replace("\t", "  ").split("\n")))
    (click.UsageError(text, error.ctx) if isinstance(error, click.UsageError) else click.ClickException(text)).show()


def _less_memory(arguments: list[str]) -> str:
    """Return advice for a command that ran out of memory."""
    if "dump-log" in arguments[:1]:
        return "lower --max-batch-bytes or --max-decompressed-bytes"
    return "name fewer partitions, use --jobs 1, or give the process more memory"


def _problem_of_kernels(error: ImportError | TypeError) -> tuple[str, str] | None:
    """Return (code, sentence) if the kernels are not compiled, or are older than their importer."""
    what = str(error)
    if isinstance(error, TypeError):
        is_old = what.startswith("C function engine.kernels.")  # … has wrong signature
    elif (error.name or "").startswith("engine.kernels.") and "not compiled" in what:  # see engine/kernels/__init__.py
        return "no-kernels", what
    else:
        is_old = "engine.kernels." in what
    return ("old-kernels", _OLD_KERNELS) if is_old else None


def _abandon(code: str, message: str, arguments: list[str] | None) -> None:
    """Print one line to stderr, if possible, and end with status 8."""
    with contextlib.suppress(OSError):
        click.echo(f"error[{code}] {message}", err=True)
    if arguments is None:  # data left in the streams' buffers would fail again at the end of the process
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                os.dup2(nowhere, stream.fileno())
    sys.exit(8)


if __name__ == "__main__":
    main()
