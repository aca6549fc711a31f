"""Runs the jobs of `kafkalog spark` and shows their rows."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from kafkalog_cli.app import printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


_CELL = 60  # characters of a value in a table for people


def run_job(
    job: str, paths: tuple[str, ...], reading: dict[str, object], *, form: str, master: str | None,
    settings: tuple[tuple[str, str], ...], by: str, top: int, to: str, mode: str,
) -> int:  # fmt: skip
    """Run `job` → exit status: 0, or 4 where something is wrong."""
    try:
        from kafkalog_spark.session import session
    except ImportError as error:
        raise click.UsageError(f"{error.name} is not installed: pip install 'kafkalog[spark]'") from None
    try:
        with session(master, settings) as spark:
            return _run(spark, job, paths, reading, form=form, by=by, top=top, to=to, mode=mode)
    except ValueError as error:  # one of kafkalog_spark.errors
        _fail(str(error))
    except Exception as error:  # noqa: BLE001  # Spark's, of many classes
        _fail(_first_line(error))
    return 8


def _fail(message: str) -> None:
    click.echo(f"error[job-failed] {printable(message.removeprefix('kafkalog: '))}", err=True)


def _first_line(error: Exception) -> str:
    """What went wrong, out of Spark's pages: our own sentence where there is one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for line in lines:
        if "kafkalog: " in line:
            return line.partition("kafkalog: ")[2]
    return lines[0] if lines else type(error).__name__


def _run(
    spark: SparkSession, job: str, paths: tuple[str, ...], reading: dict[str, object], *, form: str, by: str, top: int, to: str,
    mode: str,
) -> int:  # fmt: skip
    if job == "export":
        from kafkalog_spark.jobs.export import export

        export(spark, *paths, to=to, mode=mode, **reading)
        click.echo(f"written to {printable(to)}", err=True)
        return 0
    if job == "stats":
        from kafkalog_spark.jobs.stats import stats

        _show(stats(spark, *paths, by=by, top=top, **reading), form)
        return 0
    from kafkalog_spark.jobs.verify import verify

    reading.pop("onCorruption")
    severities = Counter(row["severity"] for row in _shown(verify(spark, *paths, **reading), form, _finding_line))
    said = ", ".join(f"{severities[name]} {name}" for name in ("error", "warning", "info") if severities[name])
    click.echo(said or "nothing wrong", err=True)
    return 4 if severities["error"] or severities["warning"] else 0


def _show(frame: DataFrame, form: str) -> None:
    rows = [row.asDict(recursive=True) for row in _shown(frame, form, None)]
    if form == "text":
        _table(frame.columns, rows)


def _shown(frame: DataFrame, form: str, line: Any) -> list[Row]:
    """The rows, written out one by one: as JSON, or as `line` makes them."""
    rows = []
    for row in frame.toLocalIterator(prefetchPartitions=True):
        rows.append(row)
        if form == "jsonl":
            click.echo(json.dumps(_plain(row.asDict(recursive=True)), ensure_ascii=False))
        elif line is not None:
            click.echo(line(row))
    return rows


def _finding_line(row: Row) -> str:
    place = row["file"] + ("" if row["position"] is None else f" at byte {row['position']}")
    place += "" if row["offset"] is None else f", offset {row['offset']}"
    return f"{row['severity']}[{row['code']}] {printable(place)}: {printable(row['what'])}"


def _plain(value: Any) -> Any:
    """Values that JSON can hold: bytes as text where they are UTF-8, else in base64 beside `_b64`."""
    import base64
    import datetime as dt

    if not isinstance(value, dict):
        return value.isoformat() if isinstance(value, dt.datetime) else value
    plain: dict[str, Any] = {}
    for name, one in value.items():
        if isinstance(one, bytes | bytearray):
            try:
                plain[name] = one.decode()
            except UnicodeDecodeError:
                plain[f"{name}_b64"] = base64.b64encode(one).decode()
        else:
            plain[name] = _plain(one)
    return plain


def _table(columns: list[str], rows: list[dict[str, Any]]) -> None:
    texts = [[_cell(row[name]) for name in columns] for row in rows]
    widths = [max(len(name), *(len(line[at]) for line in texts)) if texts else len(name) for at, name in enumerate(columns)]
    numeric = [all(isinstance(row[name], int | None) for row in rows) for name in columns]
    for line in [columns, *texts]:
        columns_of = zip(line, widths, numeric, strict=True)
        click.echo("  ".join(one.rjust(width) if right else one.ljust(width) for one, width, right in columns_of).rstrip())


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    text = bytes(value).decode("utf-8", "backslashreplace") if isinstance(value, bytes | bytearray) else str(value)
    return printable(text if len(text) <= _CELL else text[: _CELL - 1] + "…")
