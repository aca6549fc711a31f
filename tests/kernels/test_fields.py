"""The numbers that kernels share with others: what fields.py, walk.py and tables.py declare, and the literals that setup.py writes."""

from __future__ import annotations

from enum import IntEnum
from itertools import combinations
from pathlib import Path

import pytest

from engine.kernels import fields, tables, walk
from engine.kernels.build import NUMBERS, literals

SHARED = {"fields": fields, "walk": walk, "tables": tables}


def constants(module):
    return {name for name, value in vars(module).items() if name.isupper() and isinstance(value, int)}


@pytest.mark.parametrize("name", NUMBERS)
def test_the_literals_are_as_new_as_their_source(name):
    module = SHARED[name]
    assert Path(module.__file__).with_suffix(".pxd").read_text() == literals(name, vars(module)), "`make build`"


def test_literals():
    declared = {"ONE": 1, "LESS": -2, "INT_MAX": 2**31 - 1, "LONG_MAX": 2**63 - 1, "Kind": IntEnum, "small": 3, "TEXT": "x"}
    assert literals("x", declared) == """# Written by setup.py from x.py.

cdef enum:
    ONE = 1
    LESS = -2

cdef extern from *:
    const long long INT_MAX "2147483647LL"
    const long long LONG_MAX "9223372036854775807LL"
"""


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
    return {name.partition("_")[0] for name in constants(module) if name[1:2] == "_"}


def test_a_name_and_a_prefix_mean_one_thing():
    for one, other in combinations(SHARED.values(), 2):
        assert constants(one) & constants(other) == set()
        assert prefixes(one) & prefixes(other) == set()
