"""What a dump is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.formats import INT_MAX
from engine.record.bounded import MAX_DECOMPRESSED_BYTES
from engine.record.windows import MAX_BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.schema.decode import RecordDecoder

UNLIMITED = INT_MAX  # the default of --max-bytes
MAX_MESSAGE_SIZE = 5 << 20  # the default of --max-message-size


class DumpOptions(NamedTuple):
    """The options of kafka-dump-log, and ours. Sizes in bytes.

    decoder            of an internal topic's records; `auto_decode` picks it by the topic's name
    key_decoder, value_decoder   bytes → what is printed, for --key-decoder-class and --value-decoder-class
    escape             control characters in payloads are shown escaped: for terminals
    """

    print_data: bool = False
    deep: bool = False
    skip_metadata: bool = False
    verify_only: bool = False
    sanity_only: bool = False
    max_message_size: int = MAX_MESSAGE_SIZE
    max_bytes: int = UNLIMITED
    decoder: RecordDecoder | None = None
    auto_decode: bool = False
    key_decoder: Callable[[bytes], bytes] | None = None
    value_decoder: Callable[[bytes], bytes] | None = None
    continue_on_corruption: bool = False
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
    max_batch_bytes: int = MAX_BATCH_BYTES
    escape: bool = False

    @property
    def iterates(self) -> bool:
        """Deep iteration, asked for or implied by printing."""
        return self.deep or self.print_data
