"""Environment variables stand for options; short options for the long ones that many commands share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from kafkalog_cli.manual import commands, generated
from tests.support.run import kafkalog

ROOT = Path(__file__).parents[2]
FILES = generated(ROOT)
SHORT = {"--dry-run": "-n", "--quiet": "-q", "--verbose": "-v", "--jobs": "-j", "--version": "-V", "--yes": "-y"}
DAMAGED = "cases/recover-index-beyond-flushed/before"


@pytest.fixture
def logs(own_corpus, tmp_path):
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/clean/d0", tmp_path / "d0")
    return tmp_path / "d0"


@pytest.mark.parametrize("name", sorted(commands()))
def test_an_option_has_the_same_short_name_everywhere(name):
    for option in commands()[name].params:
        for long, short in SHORT.items():
            if long in option.opts:
                assert short in option.opts, long
            else:
                assert short not in option.opts, option.opts


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_option_can_come_from_the_environment_and_the_page_says_so(name):
    command, page = commands()[name], FILES[f"man/kafkalog-{name.replace(' ', '-')}.1"]
    options = [option for option in command.params if isinstance(option, click.Option) and "--version" not in option.opts]
    for option in options:
        assert command.variable_of(option) in option.envvar
    if options:
        assert f"KAFKALOG_{name.upper().replace('-', '_').replace(' ', '_')}_OPTION" in page
    if any("--config-file" in option.opts for option in options):
        assert "KAFKALOG_CONFIG_FILE" in page


def test_a_value_of_the_environment(logs, monkeypatch):
    monkeypatch.setenv("KAFKALOG_RECOVER_FORMAT", "json")
    monkeypatch.setenv("KAFKALOG_RECOVER_DRY_RUN", "1")
    done = kafkalog("recover", str(logs))
    assert b'"dry_run":true' in done.out
    assert b'"dry_run"' not in kafkalog("recover", "--format", "text", str(logs)).out


def test_the_configuration_of_the_broker(logs, tmp_path, monkeypatch):
    (tmp_path / "server.properties").write_text(f"log.dirs={logs}\n")
    monkeypatch.setenv("KAFKALOG_CONFIG_FILE", str(tmp_path / "server.properties"))
    assert kafkalog("verify").out.count(b": sound") >= 2
    assert str(logs).encode() in kafkalog("recover", "-n").out


@pytest.mark.parametrize("name", ["verify", "recover"])
def test_a_configuration_that_is_not_there(name, monkeypatch):
    monkeypatch.setenv("KAFKALOG_CONFIG_FILE", "/none/server.properties")
    done = kafkalog(name)
    assert (done.out, done.status) == (b"", 8)
    assert "/none/server.properties: No such file or directory" in done.err


def test_a_version_in_the_environment_is_somebody_elses(monkeypatch):
    monkeypatch.setenv("KAFKALOG_VERSION", "1.2.3")
    assert kafkalog("dump-log", "-h").status == 0


def test_a_quarantine_of_the_environment_does_not_hinder_reading(logs, tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKALOG_VERIFY_QUARANTINE", str(tmp_path / "q"))
    assert kafkalog("verify", str(logs)).status == 0


@pytest.mark.parametrize("words", [("verify",), ("recover", "-n")])
def test_quiet_shows_problems_only(words, logs, own_corpus):
    sound, damaged = str(logs), str(own_corpus / "kafka-4.3.1" / DAMAGED)
    assert kafkalog(*words, "-q", sound).out == b""
    shown = kafkalog(*words, "-q", sound, damaged)
    assert shown.status in (1, 4)
    assert b"topic-0: " in shown.out
    lines = [line for line in shown.out.decode().splitlines() if not line.startswith("next: ")]
    assert not any(sound in line for line in lines)


def test_quiet_leaves_out_harmless_findings(own_corpus):
    unclean = str(own_corpus / "kafka-4.3.1" / "logs" / "unclean" / "d0" / "u-plain-1")
    assert "info[index-zero-tail]" in kafkalog("verify", unclean).err
    assert "info[" not in kafkalog("verify", "-q", unclean).err


def test_verbose_gives_the_reasons_without_a_terminal(own_corpus):
    damaged = str(own_corpus / "kafka-4.3.1" / DAMAGED)
    assert "\n  why  " not in kafkalog("verify", damaged).err
    assert "\n  why  " in kafkalog("verify", "-v", damaged).err


def test_append_says_that_it_reads_from_the_terminal(tmp_path):
    terminal, end = os.openpty()
    partition = tmp_path / "d" / "t-0"
    partition.parent.mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "kafkalog_cli", "append", "--create", str(partition)], cwd=ROOT, stdin=end,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:
        assert b"reading records from the terminal" in process.stderr.readline()
        os.write(terminal, b'{"value": "a"}\n\x04')
        out, _ = process.communicate()
    os.close(end)
    assert process.returncode == 0
    assert b"offset 0 (" in out
    os.close(terminal)
