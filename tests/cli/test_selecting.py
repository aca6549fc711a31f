import click
import pytest

from engine.amounts import parse_time
from kafkalog_cli.selecting import Header, OffsetRange, TimeRange

NOW = 1_700_000_000_000


@pytest.mark.parametrize(("text", "wanted"), [
    ("0", 0), ("-1", -1), ("1700000000000", NOW), ("now", NOW), ("2h ago", NOW - 7_200_000), ("90s ago", NOW - 90_000),
    ("1970-01-01", 0), ("1970-01-01T00:00:01Z", 1000), ("1970-01-01 00:00:01.5", 1500), ("1970-01-01T02:00+02:00", 0),
    ("1969-12-31T23:59:59.999Z", -1), ("soon", None), ("1970-01-01T00", None), ("9" * 19, None), ("2023-02-30", None),
])
def test_instants(text, wanted):
    assert parse_time(text, NOW) == wanted


@pytest.mark.parametrize(("text", "wanted"), [
    ("2h ago:1h ago", (NOW - 7_200_000, NOW - 3_600_000)), ("2h ago:", (NOW - 7_200_000, 2**63)),
    (":0", (-(2**63), 0)), ("1970-01-01T00:00:01Z:1970-01-01T00:00:02Z", (1000, 2000)),
    ("5", (5, 2**63)), ("2h ago", (NOW - 7_200_000, 2**63)), ("1970-01-01T10:30:45", (37_845_000, 2**63)),
    ("1970-01-01T00:00:01..1970-01-01T00:00:02", (1000, 2000)), ("1970-01-01:1970-01-02", (0, 86_400_000)),
])
def test_time_ranges(text, wanted):
    assert TimeRange(NOW).convert(text, None, None) == wanted


@pytest.mark.parametrize("text", ["", "2:1", "a:b"])
def test_no_time_ranges(text):
    with pytest.raises(click.BadParameter):
        TimeRange(NOW).convert(text, None, None)


@pytest.mark.parametrize(("text", "wanted"), [
    ("1:2", (1, 2)), ("7", (7, 2**63)), ("7:", (7, 2**63)), (":7", (-(2**63), 7)), (":", (-(2**63), 2**63)),
    (f"{2**63 - 1}", (2**63 - 1, 2**63)), (f"1:{2**63 - 1}", (1, 2**63 - 1)), (f"1:{2**63}", (1, 2**63)),
])
def test_offset_ranges(text, wanted):
    assert OffsetRange().convert(text, None, None) == wanted


@pytest.mark.parametrize("text", ["", "2:1", f"{2**63}", f"1:{2**63 + 1}", f"{-(2**63) - 1}:", "a"])
def test_no_offset_ranges(text):
    with pytest.raises(click.BadParameter):
        OffsetRange().convert(text, None, None)


@pytest.mark.parametrize(("text", "wanted"), [
    ("h", (b"h", None)), ("h=", (b"h", b"")), ("h=a=b", (b"h", b"a=b")), ("", (b"", None)), ("=v", (b"", b"v")),
    (r"a\=b", (b"a=b", None)), (r"a\=b=c", (b"a=b", b"c")), (r"a\\=c", (b"a\\", b"c")), (r"a\\\==c", (b"a\\=", b"c")),
    (r"\h\i", (rb"\h\i", None)), ("a\\", (b"a\\", None)), (r"h=\=\\", (b"h", rb"\=\\")), ("a\n\\=b=\n", (b"a\n=b", b"\n")),
    ("\udcff\\==\udcfe", (b"\xff=", b"\xfe")),
])
def test_headers(text, wanted):
    assert Header().convert(text, None, None) == wanted
