"""Texts that Java 17 printed."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.java.doubles import double_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (100.0, "100.0"),
        (1048576.0, "1048576.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (0.1, "0.1"),
        (2e23, "1.9999999999999998E23"),
        (2.0**-44, "5.6843418860808015E-14"),
        (5e-324, "4.9E-324"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_what_java_prints(value, text):
    assert double_text(value) == text


@given(st.integers(0, 2**64 - 1))
def test_the_text_is_the_double(bits):
    (value,) = struct.unpack(">d", struct.pack(">Q", bits))
    if math.isfinite(value):
        assert float(double_text(value)) == value
