"""Generate man pages from the commands, and all other generated files. `make docs` runs it as a program."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engine import formats
from engine.findings import KINDS
from engine.formats import Layout
from kafkalog_cli.completions import aliases, commands, scripts
from kafkalog_cli.help import CONFIG_FILE_VARIABLE, STATUS_NOTE, VARIABLES, DocumentedCommand, LazyGroup, long_name
from kafkalog_cli.main import cli

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


DOCUMENTS = ("docs/formats.md", "docs/findings.md")
_MARKED = re.compile(r"(<!-- (layout|findings)(?: (\w+))? -->\n).*?(<!-- end -->)", re.DOTALL)


def layouts() -> dict[str, Layout[Any]]:
    """Return every layout of engine.formats by the name of its tuple."""
    return {value.kind.__name__: value for value in vars(formats).values() if isinstance(value, Layout)}


def layout_table(name: str) -> str:
    """Return the table of a layout for docs/formats.md. Raises KeyError for an unknown name."""
    layout = layouts()[name]
    summary = " ".join((inspect.getdoc(layout.kind) or "").split())
    rows = [f"| {position} | `{field}` | {kind} | {meaning} |" for position, field, kind, meaning in layout.described()]
    return "\n".join([f"{summary} Fixed part: {layout.size} bytes.", "", "| at | field | type | meaning |",
                      "|---|---|---|---|", *rows, ""])  # fmt: skip


def findings_table(_name: str = "") -> str:
    """Return the table of codes for docs/findings.md."""
    rows = [
        f"| `{code}` | {kind.severity.value} | {_sentence(kind.why)} | {_advice(kind.do)} |"
        for code, kind in sorted(KINDS.items())
    ]
    return "\n".join(["| code | severity | why | what to do |", "|---|---|---|---|", *rows, ""])


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _advice(text: str) -> str:
    """Return a command as code, and a sentence as it is."""
    text = text.replace("{path}", "FILE").replace("{directory}", "DIRECTORY")
    return f"`{text}`" if text.startswith(("kafkalog ", "du ")) else _sentence(text)


_TABLES: dict[str, Callable[[str], str]] = {"layout": layout_table, "findings": findings_table}


def filled(text: str) -> str:
    """Return a document with its generated parts replaced."""
    return _MARKED.sub(lambda found: f"{found[1]}{_TABLES[found[2]](found[3] or '')}{found[4]}", text)


def documents(root: Path) -> dict[str, str]:
    """Return path below `root` → content of every document with generated parts."""
    documents = {path: filled((root / path).read_text(encoding="utf-8")) for path in DOCUMENTS}
    return {**documents, "docs/modules.md": modules_page(root)}


_MODULES_INTRODUCTION = """# Modules

Every package and module with the first sentence of its docstring, in alphabetical order.
[architecture.md](architecture.md) says how they work together. Generated: edit the docstrings, then run `make docs`.
"""


def modules_page(root: Path) -> str:
    """Return docs/modules.md: a heading for each package, a row for each module."""
    parts = [_MODULES_INTRODUCTION]
    for package in _PACKAGES:
        for folder in sorted({path.parent for path in (root / package).rglob("*.py")}):
            modules = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
            rows = [f"| `{path.name}` | {_first_sentence(path)} |" for path in modules]
            parts.append("\n".join([
                f"## {folder.relative_to(root)}/", "", *_first_sentence(folder / "__init__.py").splitlines(), "",
                *(["| module | what it holds |", "|---|---|", *rows, ""] if rows else []),
            ]))
    return "\n".join(parts).rstrip("\n") + "\n"


def _first_sentence(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=\.) (?=[A-Z`])", paragraph)[0].replace("|", "\\|")


_PACKAGES = ("kafkalog", "kafkalog_cli", "kafkalog_spark", "pyspark_kafkalog", "engine")
EDITION = "2026-11-22"  # date of the last change of the man pages' text
_ENVIRONMENT = (
    ("NO_COLOR", "If it is set, nothing is coloured. Without it colours appear on a terminal only."),
    ("FORCE_COLOR", "If it is set, and NO_COLOR is not, colours appear in files and pipes too."),
)
_AS_ROOT = (
    "Run it as the user that the broker runs as. If root runs it on a log dir of another user, it works there with that user's "
    "rights only: what it makes belongs to that user, and files of other users are refused. Log dirs of several users need "
    "several calls."
)
_SPARK_AS_ROOT = "Start it as the user that owns the log dirs: root may not change those of another user with Spark."


def generated(root: Path) -> dict[str, str]:
    """Return path below `root` → content of every man page, completion script and document with generated parts."""
    version = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert isinstance(cli, DocumentedCommand)
    found = commands()
    files = {"man/kafkalog.1": man_page("kafkalog", cli, version)}
    for name, command in found.items():
        files[f"man/kafkalog-{name.replace(' ', '-')}.1"] = man_page(f"kafkalog {name}", command, version)
    for alias, name in aliases().items():
        files[f"man/kafkalog-{alias.replace(' ', '-')}.1"] = f".so man1/kafkalog-{name}.1\n"
    shells = scripts()
    files["completions/kafkalog.bash"] = shells["bash"]
    files["completions/_kafkalog"] = shells["zsh"]
    files["completions/kafkalog.fish"] = shells["fish"]
    return {**files, **documents(root)}


def man_page(name: str, command: DocumentedCommand, version: str) -> str:
    """Return one page in man(7)."""
    below = command.table if isinstance(command, LazyGroup) else {}
    ctx = click.Context(command, info_name=name)
    dashed = name.replace(" ", "-")
    summary, *paragraphs = _paragraphs(command.help or "")
    if not below:
        summary = command.get_short_help_str(limit=200)
    lines = [
        '.\\" made by `make docs` from the command itself',
        f'.TH {dashed.upper()} 1 "{EDITION}" "kafkalog {version}" "kafkalog manual"',
        ".SH NAME",
        *_prose(f"{dashed} - {summary.rstrip('.')}"),
        ".SH SYNOPSIS",
        f".B {_text(name)}",
        _text(" ".join(command.collect_usage_pieces(ctx))),
    ]
    if paragraphs:
        lines += [".SH DESCRIPTION"]
        for number, paragraph in enumerate(paragraphs):
            lines += [".PP"] * (number > 0) + _prose(paragraph)
    if below:
        lines += [".SH COMMANDS"]
        for one in sorted(below):
            lines += [".TP", f".BR {_text(f'{dashed}-{one}')} (1)", *_prose(below[one][1])]
    lines += _options(command, ctx)
    if command.examples:
        lines += [".SH EXAMPLES"]
        for number, (purpose, line) in enumerate(command.examples):
            lines += [".PP"] * (number > 0) + [*_prose(purpose), ".PP", ".RS 4", ".nf", _text(line), ".fi", ".RE"]
    lines += [".SH EXIT STATUS"]
    for status, meaning in command.exit_status:
        lines += [".TP", f".B {status}", *_prose(meaning)]
    lines += [".PP", *_prose(STATUS_NOTE)]
    if command.writes and not below:
        lines += [".SH ROOT", *_prose(_SPARK_AS_ROOT if name.startswith("kafkalog spark") else _AS_ROOT)]
    lines += [".SH ENVIRONMENT"]
    for variable, meaning in _variables(command):
        lines += [".TP", f".B {variable}", *_prose(meaning)]
    others = [f"{dashed}-{one}" for one in sorted(below)] or [name.rpartition(" ")[0].replace(" ", "-")]
    lines += [".SH SEE ALSO", ",\n".join(f".BR {_text(other)} (1)" for other in others)]
    return "\n".join([*lines, ""])


def _variables(command: DocumentedCommand) -> Iterator[tuple[str, str]]:
    """Return the environment variables of a command and their meaning."""
    options = [option for option in command.params if isinstance(option, click.Option) and option.allow_from_autoenv]
    if any(CONFIG_FILE_VARIABLE in (option.envvar or ()) for option in options):
        yield CONFIG_FILE_VARIABLE, "A broker's server.properties, for every command with --config-file, which overrides it."
    if options:
        start = f"{VARIABLES}{(command.name or '').replace('-', '_').upper()}_"
        example = next((option for option in options if not option.is_flag), options[0])
        yield f"{start}OPTION", (
            f"The value of an option of this command that is not on the command line: {command.variable_of(example)} is "
            f"{long_name(example)}. 1 sets an option without a value. Spaces separate several values."
        )
    yield from _ENVIRONMENT


def _options(command: DocumentedCommand, ctx: click.Context) -> list[str]:
    lines = [".SH OPTIONS"]
    sections = command.options_by_section(ctx)
    for title, options in sections:
        if len(sections) > 1:
            lines.append(f".SS {_text(title)}")
        for option in options:
            record = option.get_help_record(ctx)
            if record is not None:
                lines += [".TP", f".B {_text(record[0])}", *_prose(record[1])]
    return lines


def _paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in text.split("\n\n")]


def _prose(text: str) -> list[str]:
    """Return lines of text, which roff fills again."""
    words = textwrap.wrap(" ".join(text.split()), 64, break_long_words=False, break_on_hyphens=False)  # escapes need space
    return [_text(line) for line in words]


def _text(text: str) -> str:
    """Escape one line for roff: it contains no request and no escape."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"[^\x00-\x7f]", lambda match: f"\\[u{ord(match[0]):04X}]", text)
    text = text.replace("`", "\\(ga").replace("'", "\\(aq").replace('"', "\\(dq").replace("^", "\\(ha").replace("~", "\\(ti")
    return "\\&" + text if text.startswith(".") else text


def main() -> None:
    """Write the generated files below the directory of pyproject.toml."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    for path, content in generated(root).items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
