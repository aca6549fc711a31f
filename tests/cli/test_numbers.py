"""Numbers on the command line: those that are too large or too small are told their range, however many digits they have."""

from __future__ import annotations

from importlib import import_module

import click
import pytest

from kafkalog_cli.main import COMMANDS
from kafkalog_cli.options import Ratio, Size, Whole
from kafkalog_cli.ranges import Instant, OffsetRange, StartOffset, TimeRange
from tests.support.run import kafkalog

HUGE = ("9" * 20, "9" * 5000)
LONG_MAX = 2**63 - 1


def numbers():
    """Every option of every command that takes a number: (command, option)."""
    for name, (module, _) in COMMANDS.items():
        command = import_module(module).command
        yield from ((name, option) for option in command.params if isinstance(option.type, Whole | Size | Instant | StartOffset))


@pytest.mark.parametrize(("name", "option"), [pytest.param(*one, id=f"{one[0]} {one[1].name}") for one in numbers()])
@pytest.mark.parametrize("huge", HUGE, ids=len)
def test_a_number_beyond_all_bounds_is_told_the_bound(name, option, huge):
    with pytest.raises(click.BadParameter, match=r"is too much: at most \d+$") as told:
        option.type.convert(huge, option, None)
    assert len(told.value.message) < 120, name


def test_it_comes_out_as_wrong_usage(tmp_path):
    done = kafkalog("compact", "--dedupe-buffer-size", "9" * 20, str(tmp_path))
    assert done.status == 2
    assert f"Invalid value for '--dedupe-buffer-size': '{'9' * 20}' is too much: at most {2**60}" in done.err


@pytest.mark.parametrize(("kind", "text", "said"), [
    (Whole(-5, 5), "6", "'6' is too much: at most 5"), (Whole(-5, 5), "-6", "'-6' is too little: -5 is the least"),
    (Whole(0), "-" + "9" * 30, f"'-{'9' * 30}' is too little: 0 is the least"), (Whole(0), "1e3", "'1e3' is no whole number"),
    (Whole(0), "", "'' is no whole number"), (Whole(0), "١", "'١' is no whole number"),
    (Size(), "2097152t", f"'2097152t' is too much: at most {2**60}"), (Size(7), "6", "'6' is too little: 7 is the least"),
    (Size(), "-1", "'-1' is no size: write 1000, 64k or 16MiB"),
    (OffsetRange(), f"1:{'9' * 20}", f"'1:{'9' * 20}' is too much: at most {LONG_MAX + 1}"),
    (OffsetRange(), "9" * 20, f"'{'9' * 20}' is too much: at most {LONG_MAX}"),
    (OffsetRange(), f":-{'9' * 20}", f"':-{'9' * 20}' is too little: {-LONG_MAX - 1} is the least"),
    (TimeRange(0), f"0:{'9' * 20}", f"'{'9' * 20}' is too much: at most {LONG_MAX}"),
    (TimeRange(0), f"-{'9' * 20}..", f"'-{'9' * 20}' is too little: {-LONG_MAX - 1} is the least"),
    (Instant(), "-1", "'-1' is too little: 0 is the least"), (Instant(), "1969-12-31", "'1969-12-31' lies before 1970"),
    (Instant(), "9999w ago", "'9999w ago' lies before 1970"),
])  # fmt: skip
def test_what_is_wrong_with_a_number(kind, text, said):
    with pytest.raises(click.BadParameter) as told:
        kind.convert(text, None, None)
    assert told.value.message == said


@pytest.mark.parametrize(("kind", "text", "number"), [
    (Whole(0), "0" * 5000 + "7", 7), (Whole(-5), "-5", -5), (Whole(0), f"+{LONG_MAX}", LONG_MAX), (Whole(0), " 1 ", 1),
    (Size(), "+1 KiB", 1024), (Size(), f"{2**60}", 2**60), (Size(), "0" * 100 + "1t", 2**40), (Ratio(), "0.5", 0.5),
    (StartOffset(), "-00012", -12),
])  # fmt: skip
def test_numbers(kind, text, number):
    assert kind.convert(text, None, None) == number
