"""What compiled kernels take for the constants of `formats`, and the small functions that stand in .pxd files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.formats import BatchField, RecordField, Status
from engine.kernels import fields

DECLARED = Path(fields.__file__).with_name("fields.pxd").read_text()
LITERALS = {name: int(value) for name, value in re.findall(r"^    (\w+) = (\d+)$", DECLARED, re.MULTILINE)}


@pytest.mark.parametrize("name", sorted(LITERALS))
def test_a_literal_is_the_constant_of_that_name(name):
    assert getattr(fields, name) == LITERALS[name]


def test_every_row_and_status_has_a_literal():
    wanted = {f"B_{field.name}" for field in BatchField} | {f"R_{field.name}" for field in RecordField}
    assert wanted | {status.name for status in Status} <= set(LITERALS)
