"""What compiled kernels take for the constants of `formats`, and the small functions that stand in .pxd files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.formats import BatchField, RecordField, Status
from engine.kernels import fields, walk


def literals(module):
    declared = Path(module.__file__).with_suffix(".pxd").read_text()
    bounds = re.findall(r'^    const long long (\w+) "(\d+)LL"$', declared, re.MULTILINE)
    return {name: int(value) for name, value in re.findall(r"^    (\w+) = (\d+)$", declared, re.MULTILINE) + bounds}


LITERALS = literals(fields)


@pytest.mark.parametrize(
    ("module", "name", "value"), [(module, *pair) for module in (fields, walk) for pair in literals(module).items()]
)
def test_a_literal_is_the_constant_of_that_name(module, name, value):
    assert getattr(module, name) == value


def test_the_bounds_are_among_them():
    assert {"INT_MAX", "LONG_MAX"} <= set(LITERALS)


def test_every_row_and_status_has_a_literal():
    wanted = {f"B_{field.name}" for field in BatchField} | {f"R_{field.name}" for field in RecordField}
    assert wanted | {status.name for status in Status} <= set(LITERALS)
