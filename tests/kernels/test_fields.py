"""What compiled kernels take for the numbers that they share with others: the literals in .pxd files."""

from __future__ import annotations

import re
from enum import IntEnum
from itertools import combinations
from pathlib import Path

import pytest

from engine.formats import BatchField, RecordField, Status
from engine.kernels import fields, tables, walk

SHARED = (fields, walk, tables)


def literals(module):
    declared = Path(module.__file__).with_suffix(".pxd").read_text()
    wide = re.findall(r'^    const long long (\w+) "(\d+)LL"$', declared, re.MULTILINE)
    return {name: int(value) for name, value in re.findall(r"^    (\w+) = (-?\d+)$", declared, re.MULTILINE) + wide}


@pytest.mark.parametrize(
    ("module", "name", "value"), [(module, *pair) for module in SHARED for pair in literals(module).items()]
)
def test_a_literal_is_the_constant_of_that_name(module, name, value):
    assert getattr(module, name) == value


@pytest.mark.parametrize("module", SHARED)
def test_every_constant_has_a_literal(module):
    assert {name for name, value in vars(module).items() if name.isupper() and isinstance(value, int)} == set(literals(module))


def test_every_field_and_status_is_among_them():
    wanted = {f"B_{field.name}" for field in BatchField} | {f"R_{field.name}" for field in RecordField}
    assert wanted | {status.name for status in Status} | {"INT_MAX", "LONG_MAX"} <= set(literals(fields))


def test_a_field_of_a_table_has_a_number_of_its_own():
    kinds = [kind for module in (tables, walk) for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, IntEnum)]
    assert tables.OffsetDoubt in kinds
    assert [kind.__name__ for kind in kinds if len(kind) < len(kind.__members__)] == []


def test_doubts_about_both_indexes_begin_alike():
    offset, time = (list(kind.__members__.items()) for kind in (tables.OffsetDoubt, tables.TimeDoubt))
    head = sum(name in tables.TimeDoubt.__members__ for name, _ in offset)
    assert offset[:head] == time[:head]
    assert len(offset) == len(time) == tables.DOUBT_FIELDS


def prefixes(module):
    return {name.partition("_")[0] for name in literals(module) if name[1:2] == "_"}


def test_a_name_and_a_prefix_mean_one_thing():
    for one, other in combinations(SHARED, 2):
        assert literals(one).keys() & literals(other).keys() == set()
        assert prefixes(one) & prefixes(other) == set()
