"""README and docs/ tell the truth: their commands run on the corpus and print what stands below them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

import kafkalog
from tests.support.console import ROOT, pattern, run, steps
from tests.support.corpus import cluster_directory, tiered_directory, wire_directory

README = ROOT / "README.md"
DOCUMENTS = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]


def test_there_are_commands():
    assert len(steps(README)) >= 10


def test_every_command_of_the_readme_with_a_dollar_in_front_is_among_them():
    """It says so: a block of another kind would be passed over."""
    lines = README.read_text().splitlines()
    shown = [(number, line.strip()[2:]) for number, line in enumerate(lines, 1) if line.strip().startswith("$ ")]
    assert shown == [(step.line, step.command) for step in steps(README)]


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if steps(ROOT / name)])
def test_every_command_prints_what_the_document_shows(document, own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1" / "logs", tmp_path / "logs")  # some commands write
    (tmp_path / "cases").symlink_to(own_corpus / "kafka-4.3.1" / "cases")
    (tmp_path / "logs" / "brokers").symlink_to(tiered_directory())
    (tmp_path / "logs" / "cluster").symlink_to(cluster_directory())
    (tmp_path / "logs" / "captures").symlink_to(wire_directory() / "captures")
    status = 0
    wrong = []
    for step in steps(ROOT / document):
        printed, status = run(step.command, tmp_path / "logs", status)
        if not pattern(step.printed).fullmatch(printed):
            wrong.append(f"{document}:{step.line}: $ {step.command}\n{printed[:3000]}")
    assert not wrong, "\n\n".join(wrong)


def programs(document):
    """(program, lines that it prints) of every block of Python that stands in front of a block of text."""
    for program, printed in re.findall(r"^```python\n((?:(?!```).*\n)*)```\n\n```text\n((?:(?!```).*\n)*)```$", document, re.MULTILINE):
        yield program, printed.splitlines()


EXAMPLES = list(programs((ROOT / "docs/api.md").read_text()))


def test_there_are_examples_of_every_function_that_the_package_defines():
    homes = kafkalog._HOMES
    defined = {name for name in kafkalog.__all__ if homes[name].startswith("kafkalog.") and not name[0].isupper()} | {"Partition"}
    assert defined <= set(re.findall(r"kafkalog\.(\w+)\(", "".join(program for program, _ in EXAMPLES)))


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_python_prints_what_the_page_of_the_api_shows(number, own_corpus):
    program, printed = EXAMPLES[number]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], cwd=own_corpus / "kafka-4.3.1/logs", env=environment,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert (done.stdout.splitlines(), done.stderr) == (printed, "")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    path = ROOT / document
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), target


def test_the_options_of_the_readme_exist():
    from kafkalog_cli.completions import offered_options
    from kafkalog_cli.manual import commands

    known = {name for command in commands().values() for option in offered_options(command) for name in option.names}
    known |= {"--version", "--update-docs", "--quick"}
    used = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README.read_text()))
    assert used <= known, used - known
