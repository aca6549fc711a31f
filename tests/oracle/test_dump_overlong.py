"""Messages of formats 0 and 1 whose value says that it is longer than they are: Kafka's tool prints what their fields say."""

from __future__ import annotations

import pytest

from engine.formats import Codec
from tests.support.legacy_messages import message, overlong, wrapper
from tests.support.run import kafkalog

pytestmark = pytest.mark.oracle

LOG = "t-0/00000000000000000000.log"
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)


@pytest.fixture(params=[(magic, codec) for magic in (0, 1) for codec in CODECS], ids=lambda one: f"v{one[0]}-{one[1].name}")
def home(request, tmp_path):
    magic, codec = request.param
    inner = [message(0, b"k0", b"v0", magic=magic), overlong(1, b"k1", b"v1", magic=magic), message(2, b"k2", b"v2", magic=magic),
             overlong(3, b"", b"", magic=magic, size=2**31 - 1)]  # fmt: skip
    data = b"".join(inner) if codec == Codec.NONE else wrapper(3, inner, codec, magic=magic)
    (tmp_path / "t-0").mkdir()
    (tmp_path / LOG).write_bytes(data + message(4, b"k4", b"v4", magic=magic))
    return tmp_path


@pytest.mark.parametrize("options", [(), ("--skip-record-metadata",)])
def test_where_kafka_goes_on(real_dump, home, options):
    arguments = ["--files", LOG, "--deep-iteration", *options]
    printed, _, status = real_dump(arguments, home)
    ours = kafkalog("dump-log", *arguments, cwd=home)
    assert (ours.out, status) == (printed, 0)
    assert "does not fit" in ours.err


@pytest.mark.parametrize("options", [(), ("--skip-record-metadata",)])
def test_where_kafka_dies(real_dump, home, options):
    """In the middle of the line; ours has that much, and what follows."""
    arguments = ["--files", LOG, "--print-data-log", *options]
    printed, _, status = real_dump(arguments, home)
    ours = kafkalog("dump-log", *arguments, cwd=home)
    assert status == 1
    assert ours.out.startswith(printed)
    assert b"payload: v4" in ours.out
