"""kafkalog du."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from engine.amounts import count_of, whole_number
from engine.dump.json_stream import bytes_field, text_field
from engine.errors import argument
from engine.formats import CODEC_NAMES, LONG_MAX, LONG_MIN, Codec
from kafkalog_cli.engine_options import (
    WHICH,
    choice_from,
    choice_options,
    config_file_option,
    config_option,
    paths_from,
    settings_from,
)
from kafkalog_cli.help import DocumentedCommand, Example, Section
from kafkalog_cli.options import (
    PATH_OR_URL,
    Time,
    Whole,
    bytes_option,
    files_for,
    format_option,
    refuse_urls,
    shown_size,
    version_option,
)
from kafkalog_cli.selecting import TimeRange
from kafkalog_cli.show import number_cell, show, time_cell
from kafkalog_cli.table import Column, bar, columns_of, terminal_width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.config.server import Settings
    from engine.files import ReadOnlyFiles
    from engine.log.logdir.log_dirs import LogDir
    from engine.overview.contents import Name
    from engine.overview.usage import Usage, UsedFile
    from kafkalog_cli.show import Output

_SECTIONS = (
    WHICH,
    Section("What is added up", ("--by", "--time", "--sort", "--top")),
    Section("What can be saved", ("--reclaimable", "--recompress", "--now")),
    Section("Settings", ("--config", "--config-file")),
    Section("Output", ("--bytes", "--format")),
)
_MAIN = ("--by", "--reclaimable", "--topic", "--format")
_EXAMPLES = (
    Example("Which topics are large?", "kafkalog du /var/lib/kafka/data"),
    Example("Why is the disk fuller than kafka-log-dirs says?", "kafkalog du --by kind /var/lib/kafka/data"),
    Example("When was it written?", "kafkalog du --by hour --topic orders /var/lib/kafka/data"),
    Example("Which kind of keys takes the space?", "kafkalog du --by key-prefix:4 data/orders-7"),
)
_OF_FILES = ("topic", "partition", "segment", "kind")
_OF_CONTENTS = ("codec", "hour", "producer")
_KEY_PREFIX = "key-prefix"
_PREFIX, _LONGEST = 8, 1024  # bytes of a key
_COLUMNS = (
    Column("", is_text=True, shrinks="-"), Column("segments", 6), Column("records", 4), Column("log", 1), Column("beside", 3),
    Column("left over", 2), Column("total"), Column("on disk", 5), Column("  ", 1, is_text=True, colour="cyan"),
    Column("first record", 8, is_text=True), Column("last record", 7, is_text=True),
)  # fmt: skip


class CodecList(click.ParamType[tuple[str, ...]]):
    """Names of codecs, separated by commas, or `all`."""

    name = "codecs"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Convert text. Raises click.BadParameter."""
        if isinstance(value, tuple):
            return value
        words = CODEC_NAMES if value == "all" else tuple(dict.fromkeys(word.strip() for word in str(value).split(",")))
        for word in words:
            if word not in CODEC_NAMES:
                self.fail(f"{word!r} is not one of {', '.join(CODEC_NAMES)}, all", param, ctx)
        return words


class By(NamedTuple):
    """What the lines stand for. `prefix`: bytes of keys."""

    word: str
    prefix: int = _PREFIX

    @property
    def is_of_files(self) -> bool:
        """Return whether names and sizes of files decide."""
        return self.word in _OF_FILES


class ByType(click.ParamType[By]):
    """One of the words, or key-prefix:N."""

    name = "what"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> By:
        """Convert text. Raises click.BadParameter."""
        if isinstance(value, By):
            return value
        word, colon, number = str(value).partition(":")
        prefix = whole_number(number) if colon else _PREFIX
        is_prefix = word == _KEY_PREFIX and prefix is not None and 1 <= prefix <= _LONGEST
        if not is_prefix and (colon or word not in (*_OF_FILES, *_OF_CONTENTS)):
            words = ", ".join((*_OF_FILES, *_OF_CONTENTS, _KEY_PREFIX))
            self.fail(f"{value!r} is not one of {words}, {_KEY_PREFIX}:N with N from 1 to {_LONGEST}", param, ctx)
        return By(word, _PREFIX if prefix is None else prefix)


@click.command("du", cls=DocumentedCommand, examples=_EXAMPLES, sections=_SECTIONS, main_options=_MAIN)
@click.argument("paths", nargs=-1, type=PATH_OR_URL)
@choice_options
@click.option("--by", type=ByType(), default="topic", show_default=True, metavar="WHAT",
              help="topic, partition, segment, kind (of file), codec, hour, producer, or key-prefix:N (the first N bytes of "
              "keys).")
@click.option("--time", "times", type=TimeRange(), metavar="FROM:TO",
              help="With --by codec, hour, producer or key-prefix: only batches whose largest timestamp is from FROM up to, "
              "not including, TO.")
@click.option("--sort", type=click.Choice(["bytes", "name"]), default="bytes", show_default=True,
              help="The largest first, or by name.")
@click.option("--top", type=Whole(1), metavar="N", help="Only the first N lines, and the sum of the others. Default: all.")
@click.option("--reclaimable", is_flag=True,
              help="Show what can be removed, when a broker removes it, and the command that does it now.")
@click.option("--recompress", "codecs", type=CodecList(), metavar="CODEC,…",
              help="Show how large the logs would be with these codecs, or with `all` of them, estimated from up to 64 MiB of "
              "batches.")
@click.option("--now", type=Time(), metavar="TIME", help="With --reclaimable: the clock: ISO-8601, ms, or `2h ago`. Default: "
              "the machine's.")
@config_option("A topic setting, such as retention.ms")
@config_file_option()
@bytes_option
@format_option
@version_option
@click.pass_context
def command(context: click.Context, /, paths: tuple[str, ...], form: str, **values: Any) -> int:
    """Show what uses the space of log dirs.

    PATHS are partitions, log dirs, trees of them or quoted patterns; they may be URLs (s3://BUCKET/KEY, gs://, az://). du also
    reads beside a running broker, and changes nothing.

    `log` is the size of the .log files in use, which is what kafka-log-dirs prints. `beside` are their indexes, snapshots and
    checkpoints. `left over` are files that no log uses: deleted segments that are not removed yet, unfinished ones, directories
    of deleted and stray partitions, and files that are not Kafka's. `on disk` counts whole blocks; the preallocated indexes of
    a running broker have holes, which take none.

    topic, partition, segment and kind need names and sizes only. codec, hour and producer read the headers of all batches,
    key-prefix the records. Their sizes are those of batches as stored; a batch counts in the hour of its largest timestamp, and
    the size of a batch is divided among its keys.

    --reclaimable applies the rules of `retain` with the settings that are on the disk, in --config-file and in --config.
    """
    if values["reclaimable"] and values["codecs"]:
        raise click.UsageError("--reclaimable and --recompress exclude each other")
    sources = map(context.get_parameter_source, ("by", "times", "sort", "top"))
    if ParameterSource.COMMANDLINE in sources and (values["reclaimable"] or values["codecs"]):
        raise click.UsageError("--by, --time, --sort and --top are not for --reclaimable and --recompress")
    if values["now"] is not None and not values["reclaimable"]:
        raise click.UsageError("--now needs --reclaimable")
    if values["times"] is not None and values["by"].is_of_files:
        raise click.UsageError(f"--time needs --by {', '.join(_OF_CONTENTS)} or {_KEY_PREFIX}")
    if values["reclaimable"]:
        refuse_urls(paths)
    return show(form, lambda output: _show(paths, values, output))


def _show(paths: tuple[str, ...], values: dict[str, Any], output: Output) -> None:
    from engine.discovery.names import PartitionKind
    from engine.discovery.patterns import expand
    from engine.log.logdir.log_dirs import choose_partitions, find_log_dirs
    from engine.overview.usage import used_files

    settings = settings_from(values["config_file"], values["settings"])
    named = paths_from(paths, settings)
    files, by = files_for(named), values["by"]
    found = find_log_dirs(files, [path for pattern in named for path in expand(files, pattern)], output.outcome.finding)
    log_dirs = choose_partitions(found, choice_from(values), tuple(PartitionKind))
    if values["reclaimable"]:
        _show_reclaimable(found, settings, values, output)
        return
    used = used_files(files, log_dirs, output.outcome.error)
    if values["codecs"]:
        _show_estimates(files, used, values["codecs"], output)
        return
    groups = _of_files(used, _GROUPS[by.word]) if by.is_of_files else _of_contents(files, used, values, output)
    _print(groups, values, output)


def _of_files(used: Iterable[UsedFile], group_of: Callable[[UsedFile], Name]) -> dict[Name, Usage]:
    from engine.overview.usage import Usage

    groups: dict[Name, Usage] = {}
    for one in used:
        groups.setdefault(group_of(one), Usage()).add_file(one)
    return groups


_NO_TOPIC = "(log dir)"  # files of a log dir itself
_GROUPS: dict[str, Callable[[UsedFile], Name]] = {
    "topic": lambda one: _NO_TOPIC if one.partition is None else one.partition.name.topic,
    "partition": lambda one: _NO_TOPIC if one.partition is None else one.partition.path,
    "segment": lambda one: _NO_TOPIC if one.partition is None else f"{one.partition.path}/{one.name.partition('.')[0]}",
    "kind": lambda one: one.group,
}


def _of_contents(
    files: ReadOnlyFiles, used: Iterable[UsedFile], values: dict[str, Any], output: Output
) -> dict[Name, Usage]:
    from engine.overview.contents import Contents, Times

    first, end = values["times"] or (LONG_MIN, LONG_MAX + 1)
    outcome, by = output.outcome, values["by"]
    contents = Contents(files, by.word, outcome.finding, outcome.error, Times(first, end), by.prefix)
    contents.add(used)
    return contents.groups


def _print(groups: dict[Name, Usage], values: dict[str, Any], output: Output) -> None:
    from engine.overview.usage import Usage

    counted = None if values["by"].is_of_files else 0
    total = Usage(records=counted)
    for usage in groups.values():
        total.add(usage)
    order = sorted(groups, key=lambda name: name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape"))
    if values["sort"] == "bytes":
        order.sort(key=lambda name: -groups[name].size)
    top = len(order) if values["top"] is None else values["top"]
    rest = Usage(records=counted)
    for name in order[top:]:
        rest.add(groups[name])
    word = values["by"].word
    if output.stream is not None:
        for name in order[:top]:
            output.stream.put("usage", _fields(word, name, groups[name]))
        if len(order) > top:
            output.stream.put("usage", _fields("others", count_of(len(order) - top, "other"), rest))
        output.stream.put("usage", _fields("total", "total", total))
        return
    most = max((usage.size for usage in groups.values()), default=0)
    rows = [(_text(name), groups[name]) for name in order[:top]]
    if len(order) > top:
        rows.append((count_of(len(order) - top, "other"), rest))
    is_of_files = values["by"].is_of_files
    cells = [_row(name, usage, most, is_of_files=is_of_files) for name, usage in [*rows, ("total", total)]]
    output.table([_COLUMNS[0]._replace(heading=word), *_COLUMNS[1:]], cells)


def _row(name: str, usage: Usage, most: int, *, is_of_files: bool) -> list[str]:
    shows_bar = terminal_width() is not None and name != "total"
    return [
        name, str(usage.segments) if is_of_files else "", number_cell(usage.records),
        shown_size(usage.log) if is_of_files else "", shown_size(usage.beside) if is_of_files else "",
        shown_size(usage.left_over) if is_of_files else "", shown_size(usage.size),
        shown_size(usage.allocated) if is_of_files else "", bar(usage.size, most) if shows_bar else "",
        time_cell(usage.first_time), time_cell(usage.last_time),
    ]  # fmt: skip


def _text(name: Name) -> str:
    return name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")


def _fields(by: str, name: Name, usage: Usage) -> dict[str, object]:
    data = name.encode("utf-8", "surrogateescape") if isinstance(name, str) else name
    return {
        "by": by, **bytes_field("name", data), "log_bytes": usage.log, "beside_bytes": usage.beside,
        "left_over_bytes": usage.left_over, "allocated_bytes": usage.allocated, "segments": usage.segments,
        "records": usage.records, "first_time": usage.first_time, "last_time": usage.last_time,
    }  # fmt: skip


def _show_reclaimable(found: list[LogDir], settings: Settings, values: dict[str, Any], output: Output) -> None:
    from engine.files import Files, now_ms
    from engine.overview.brokers import brokers_of
    from engine.overview.reclaim import When, reclaimable

    disk, now = Files(), now_ms() if values["now"] is None else values["now"]
    options = [f"--config {argument('='.join(pair))}" for pair in values["settings"]]
    options += [] if values["config_file"] is None else [f"--config-file {argument(values['config_file'])}"]
    sums = dict.fromkeys(When, 0)
    for broker in brokers_of(disk, found, settings, now, choice_from(values)):
        for one in reclaimable(disk, broker, settings, now, output.outcome.error, options):
            sums[one.when] += one.size
            if output.stream is not None:
                output.stream.put("reclaim", {**text_field("path", one.path), "bytes": one.size, "why": one.why,
                                              "when": one.when.value, "do": one.do})  # fmt: skip
            else:
                output.line(f"{shown_size(one.size)} {_WHEN[one.when.value]}: {one.path}: {one.why}")
                output.line(f"  {one.do}")
    if output.stream is None:
        parts = [f"{shown_size(size)} {_WHEN[when.value]}" for when, size in sums.items() if size]
        output.line(f"total: {', '.join(parts) if parts else 'nothing can be removed'}")


_WHEN = {
    "next-check": "at the next check of retention", "next-start": "at the next start",
    "after-next-start": "after the next start", "never": "not removed by a broker", "unknown": "not known",
}  # fmt: skip


def _show_estimates(files: ReadOnlyFiles, used: Iterable[UsedFile], codecs: tuple[str, ...], output: Output) -> None:
    from engine.overview.recompression import estimate
    from engine.overview.usage import LOG

    logs = [one for one in used if one.kind == LOG]
    found = estimate(files, logs, [Codec(CODEC_NAMES.index(codec)) for codec in codecs])
    if output.stream is not None:
        for one in found:
            output.stream.put("recompression", {
                "codec": CODEC_NAMES[one.codec], "log_bytes": one.now, "estimated_bytes": one.size, "margin_bytes": one.margin,
                "sampled_bytes": one.sampled,
            })  # fmt: skip
        return
    if not found:
        output.line("no batch of format 2 to compress")
        return
    output.line(f"{shown_size(found[0].now)} in logs; sampled {shown_size(found[0].sampled)} of batches")
    rows = [(CODEC_NAMES[one.codec], shown_size(one.size), f"± {shown_size(one.margin)}", f"{100 * one.size / one.now:.0f} %")
            for one in found]  # fmt: skip
    output.table(columns_of(("codec", "size", "margin", "of now"), ("codec",)), rows)
