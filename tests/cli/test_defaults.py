"""Defaults that the command line says again, so that --help need not import the engine, are the engine's own."""

from __future__ import annotations

import pytest

from engine.dump.renderer import MAX_MESSAGE_SIZE, UNLIMITED, DumpOptions
from engine.log.cleaner.offset_map import DEDUPE_BUFFER_SIZE
from engine.record.reader import MAX_DECOMPRESSED_BYTES
from engine.record.windows import MAX_BATCH_BYTES
from kafkalog_cli.manual import commands
from kafkalog_spark.jobs.upkeep import DEDUPE_BUFFER_SIZE as DEDUPE_BUFFER_SIZE_OF_A_TASK

WANTED = {
    ("dump-log", "--max-message-size"): MAX_MESSAGE_SIZE,
    ("dump-log", "--max-bytes"): UNLIMITED,
    ("dump-log", "--max-decompressed-bytes"): MAX_DECOMPRESSED_BYTES,
    ("dump-log", "--max-batch-bytes"): MAX_BATCH_BYTES,
    ("grep", "--max-decompressed-bytes"): MAX_DECOMPRESSED_BYTES,
    ("grep", "--max-batch-bytes"): MAX_BATCH_BYTES,
    ("explain", "--max-decompressed-bytes"): MAX_DECOMPRESSED_BYTES,
    ("compact", "--dedupe-buffer-size"): DEDUPE_BUFFER_SIZE,
    ("spark compact", "--dedupe-buffer-size"): DEDUPE_BUFFER_SIZE_OF_A_TASK,
}


def parameters(command):
    return commands()[command].params


@pytest.mark.parametrize(("command", "option"), WANTED)
def test_a_default_of_the_command_line_is_the_engines(command, option):
    found = next(one for one in parameters(command) if option in one.opts)
    assert found.type.convert(found.default, found, None) == WANTED[command, option]


@pytest.mark.parametrize("name", ["--dedupe-buffer-size", "--max-batch-bytes", "--max-decompressed-bytes", "--max-message-size"])
def test_no_other_command_says_one_again(name):
    assert {command for command in commands() for one in parameters(command) if name in one.opts} == {
        command for command, option in WANTED if option == name
    }


def test_a_dump_without_options_is_that_of_the_command_line():
    from kafkalog_cli.commands.dump_log import command, options_from

    values = command.make_context("dump-log", ["x"]).params
    assert options_from(values)._replace(escape=False, jobs=1) == DumpOptions()
