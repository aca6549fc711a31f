"""What a decoder of the user's own does to a dump: whatever it raises is a finding, and nothing gets past the escaping."""

from __future__ import annotations

import pytest

from engine.dump.record_text import DecoderEnded, printer_for
from engine.dump.renderer import DumpOptions


class Mute(Exception):
    def __str__(self):
        raise ValueError("no text")


def failing(error):
    def decode(_data):
        raise error

    return decode


@pytest.mark.parametrize(("error", "said"), [
    (ValueError("why"), "the decoder failed: ValueError: why"),
    (RecursionError("deep"), "the decoder failed: RecursionError: deep"),
    (Mute(), "the decoder failed: Mute: its message is not available: ValueError"),
])  # fmt: skip
def test_what_a_decoder_raises_is_said(error, said):
    printed = printer_for("t-0/00000000000000000000.log", None, DumpOptions(value_decoder=failing(error), escape=True))
    assert printed(0, b"KEY\x1b[31m\xc2\x9b", b"value") == (rb" key: KEY\x1b[31m\x9b", said)


def test_the_rest_of_a_record_comes_as_it_is_where_nothing_is_escaped():
    printed = printer_for("t-0/00000000000000000000.log", None, DumpOptions(value_decoder=failing(OSError(28, "full"))))
    assert printed(0, b"KEY\x1b", b"value") == (b" key: KEY\x1b", "the decoder failed: OSError: [Errno 28] full")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), GeneratorExit()])
def test_what_ends_the_program_ends_it_in_a_decoder_as_well(error):
    printed = printer_for("t-0/00000000000000000000.log", None, DumpOptions(value_decoder=failing(error)))
    with pytest.raises(type(error)):
        printed(0, b"key", b"value")


def test_a_decoder_that_ends_the_program_is_an_error_that_says_so():
    printed = printer_for("t-0/00000000000000000000.log", None, DumpOptions(key_decoder=failing(SystemExit(3))))
    with pytest.raises(DecoderEnded, match=r"the decoder ended the program: SystemExit\(3\)"):
        printed(0, b"key", b"value")
