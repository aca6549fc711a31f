"""Numbers on the command line: those that are too large or too small are told their range, however many digits they have."""

from __future__ import annotations

from importlib import import_module

import click
import pytest

from kafkalog_cli.main import COMMANDS
from kafkalog_cli.options import Ratio, Size, Time, Whole
from kafkalog_cli.selecting import OffsetRange, TimeRange
from tests.support.run import kafkalog

HUGE = ("9" * 20, "9" * 5000)
LONG_MAX = 2**63 - 1


def numbers():
    """Every option of every command that takes a number: (command, option)."""
    for name, (module, _) in COMMANDS.items():
        command = import_module(module).command
        yield from ((name, option) for option in command.params if isinstance(option.type, Whole | Size | Time | OffsetRange))


@pytest.mark.parametrize(("name", "option"), [pytest.param(*one, id=f"{one[0]} {one[1].name}") for one in numbers()])
@pytest.mark.parametrize("huge", HUGE, ids=len)
def test_a_number_beyond_all_bounds_is_told_the_bound(name, option, huge):
    with pytest.raises(click.BadParameter, match=r"^must be \d+ or less, not '9+…?'$") as told:
        option.type.convert(huge, option, None)
    assert len(told.value.message) < 120, name


def test_it_comes_out_as_wrong_usage(tmp_path):
    done = kafkalog("compact", "--dedupe-buffer-size", "9" * 20, str(tmp_path))
    assert done.status == 2
    assert f"Invalid value for '--dedupe-buffer-size': must be {2**60} or less, not '{'9' * 20}'" in done.err


@pytest.mark.parametrize(("kind", "text", "said"), [
    (Whole(-5, 5), "6", "must be 5 or less, not '6'"), (Whole(-5, 5), "-6", "must be -5 or greater, not '-6'"),
    (Whole(0), "-" + "9" * 30, f"must be 0 or greater, not '-{'9' * 30}'"), (Whole(0), "1e3", "'1e3' is not a whole number"),
    (Whole(0), "", "'' is not a whole number"), (Whole(0), "١", "'١' is not a whole number"),
    (Size(), "2097152t", f"must be {2**60} or less, not '2097152t'"), (Size(7), "6", "must be 7 or greater, not '6'"),
    (Size(), "-1", "'-1' is not a size: write 1000, 64kB or 16MiB"),
    (OffsetRange(), f"1:{'9' * 20}", f"must be {LONG_MAX + 1} or less, not '1:{'9' * 20}'"),
    (OffsetRange(), "9" * 20, f"must be {LONG_MAX} or less, not '{'9' * 20}'"),
    (OffsetRange(), f":-{'9' * 20}", f"must be {-LONG_MAX - 1} or greater, not ':-{'9' * 20}'"),
    (TimeRange(0), f"0:{'9' * 20}", f"must be {LONG_MAX} or less, not '{'9' * 20}'"),
    (TimeRange(0), f"-{'9' * 20}..", f"must be {-LONG_MAX - 1} or greater, not '-{'9' * 20}'"),
    (Time(), "-1", "must be 0 or greater, not '-1'"), (Time(), "1969-12-31", "'1969-12-31' is before 1970"),
    (Time(), "9999w ago", "'9999w ago' is before 1970"),
])  # fmt: skip
def test_what_is_wrong_with_a_number(kind, text, said):
    with pytest.raises(click.BadParameter) as told:
        kind.convert(text, None, None)
    assert told.value.message == said


@pytest.mark.parametrize(("kind", "text", "number"), [
    (Whole(0), "0" * 5000 + "7", 7), (Whole(-5), "-5", -5), (Whole(0), f"+{LONG_MAX}", LONG_MAX), (Whole(0), " 1 ", 1),
    (Size(), "+1 KiB", 1024), (Size(), "64k", 64 << 10), (Size(), "10GB", 10**10), (Size(), "10 gib", 10 << 30), (Size(), "3kB", 3000),
    (Size(), "3b", 3), (Time(-1), "-1", -1), (Time(), "2026-11-21", 1_795_219_200_000), (Time(), "7", 7), (Size(), f"{2**60}", 2**60), (Size(), "0" * 100 + "1t", 2**40), (Ratio(), "0.5", 0.5),
    (OffsetRange(with_ends=True), "-00012", (-12, LONG_MAX + 1)),
])  # fmt: skip
def test_numbers(kind, text, number):
    assert kind.convert(text, None, None) == number
