"""Message sets of Kafka 0.7 in memory: entries, and iterators over a set with or without opening compressed sets.

An entry is `size, magic, [attributes, magic 1 only], checksum, payload`; its offset is its byte position in the log. Iterators
end where 0.7.2 ends, and yield a `Stopped` where 0.7.2 throws. They never raise for bad bytes.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from engine.amounts import count_of
from engine.formats import ENTRY_07, ENTRY_07_V0, Entry07, Entry07V0
from engine.record.codecs.bounded import MAX_DECOMPRESSED_BYTES
from engine.record.damage import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SIZE_FIELD = ENTRY_07.positions["magic"]  # bytes of the size field, which the size does not count
HEADER_V0 = ENTRY_07_V0.size - SIZE_FIELD  # magic, checksum
HEADER_V1 = ENTRY_07.size - SIZE_FIELD  # magic, attributes, checksum
MIN_SIZE = HEADER_V0  # smallest size field that 0.7.2 accepts (Message.MinHeaderSize)
CODEC_MASK_07 = 0x03
CODEC_NAMES_07 = ("NoCompressionCodec", "GZIPCompressionCodec", "SnappyCompressionCodec")
_VIEWED = 256 * 1024  # bytes: larger payloads are views of their set, not copies
MAX_DEPTH = 16  # of nested sets; producers never nest, so more is an attack

UNKNOWN_MAGIC = "kafka.common.UnknownMagicByteException"
UNKNOWN_CODEC = "kafka.common.UnknownCodecException"
INVALID_MESSAGE = "kafka.message.InvalidMessageException"
INVALID_MESSAGE_SIZE = "kafka.common.InvalidMessageSizeException"
INDEX_OUT_OF_BOUNDS = "java.lang.IndexOutOfBoundsException"
IO_EXCEPTION = "java.io.IOException"

read_size = Struct(">i").unpack_from  # (size field,) of the entry at a position of a buffer
_read_v0, _read_v1 = ENTRY_07_V0.struct.unpack_from, ENTRY_07.struct.unpack_from


class MessageAndOffset(NamedTuple):
    """One message. Mirrors kafka.message.MessageAndOffset of 0.7.

    `offset` is the start of the outermost entry that contains the message. `next_offset` is the offset that 0.7.2 fetches next:
    in a compressed set, the start of that entry again for every message but the last. Fields that an unknown magic or a short
    header hides are None.
    """

    offset: int
    next_offset: int
    size: int  # the size field
    magic: int | None  # signed
    attributes: int | None  # unsigned; None in magic 0
    checksum: int | None  # as stored
    computed: int | None  # as it should be
    payload: bytes | memoryview | None  # a view: a large payload inside a compressed set, whose bytes it keeps in memory
    payload_position: int | None  # byte position in the iterated bytes; None inside a compressed set
    error: Problem | None  # what 0.7.2 throws when asked for the fields or codec, or why a set was not opened

    @property
    def codec(self) -> int | None:
        """The codec id, 0 to 3 (3 is unknown), or None if the magic is unknown."""
        if self.attributes is not None:
            return self.attributes & CODEC_MASK_07
        return 0 if self.magic == 0 else None

    @property
    def valid(self) -> bool | None:
        """Whether the checksum matches; None if the entry has none."""
        return None if self.computed is None else self.computed == self.checksum

    def crc_problem(self) -> Problem:
        """Return the problem of a message with a wrong checksum."""
        return crc_problem(self.checksum or 0, self.computed or 0)


class Stopped(NamedTuple):
    """The last item of an iteration that 0.7.2 ends with an exception: the start of the bad outermost entry."""

    position: int  # in the iterated bytes
    offset: int
    error: Problem


def header_problem(magic: int | None, size: int) -> Problem | None:
    """Return why the fields of an entry with this (signed) magic and size cannot be read; or None. Mirrors Message.isValid."""
    if magic is None:
        return Problem("batch-size-invalid", "size 0: too small for a magic byte", INDEX_OUT_OF_BOUNDS)
    if magic not in (0, 1):
        message = f"Magic byte value of {magic} is unknown"
        return Problem("unknown-magic", f"magic {magic}, 0.7 knows 0 and 1", UNKNOWN_MAGIC, message)
    if size < (HEADER_V1 if magic else HEADER_V0):
        return Problem("batch-size-invalid", f"size {size}: too small for a header of magic {magic}", INDEX_OUT_OF_BOUNDS)
    return None


def attributes_problem(attributes: int | None) -> Problem | None:
    """Return why 0.7.2 throws when asked for the codec of an entry with these attributes; or None."""
    codec = (attributes or 0) & CODEC_MASK_07
    if codec < len(CODEC_NAMES_07):
        return None
    message = f"{codec} is an unknown compression codec"
    return Problem("unknown-codec", f"codec {codec}, 0.7 knows 0 to 2", UNKNOWN_CODEC, message)


def crc_problem(stored: int, computed: int) -> Problem:
    """Return the problem of a checksum that does not match the payload."""
    return Problem("crc-mismatch", f"stored CRC-32 {stored:08x}, computed {computed:08x}")


def signed(byte: int) -> int:
    """Convert an unsigned byte to Java's signed byte."""
    return byte - 256 if byte > 127 else byte


def size_at(data: bytes | memoryview, at: int) -> int:
    """Return the size field of the entry at data[at]."""
    size: int = read_size(data, at)[0]
    return size


def head_at(data: bytes | memoryview, at: int) -> tuple[int, int | None, int]:
    """Return (bytes from the magic to the payload, attributes, checksum) of the entry at data[at].

    Its magic is 0 or 1, and its size has room for the header (`header_problem`). The attributes of magic 0 are None.
    """
    if data[at + SIZE_FIELD]:
        _, _, attributes, checksum = _read_v1(data, at)
        return HEADER_V1, attributes, checksum
    return HEADER_V0, None, _read_v0(data, at)[2]


def message_at(data: bytes | memoryview, at: int, size: int, offset: int, position: int) -> MessageAndOffset:
    """Return the whole entry at data[at], which is at `position` of the iterated bytes."""
    end = offset + SIZE_FIELD + size
    attributes: int | None
    if size >= HEADER_V1 and data[at + SIZE_FIELD] == 1:  # the common case, without a call
        header = HEADER_V1
        _, magic, attributes, checksum = _read_v1(data, at)
    else:
        magic = signed(data[at + SIZE_FIELD]) if size else None
        error = header_problem(magic, size)
        if error:
            return MessageAndOffset(offset, end, size, magic, None, None, None, None, None, error)
        header, attributes, checksum = head_at(data, at)
    start = SIZE_FIELD + header
    payload = data[at + start : at + SIZE_FIELD + size]
    if isinstance(payload, memoryview) and len(payload) < _VIEWED:
        payload = bytes(payload)
    error = attributes_problem(attributes) if attributes else None
    return MessageAndOffset(
        offset, end, size, magic, attributes, checksum, crc32(payload), payload, position + start, error
    )


def iterate_set(data: bytes | memoryview, initial_offset: int = 0) -> Iterator[MessageAndOffset | Stopped]:
    """Return the entries of a set at its top level, each checksum checked; `initial_offset` is the offset of `data[0]`.

    Mirrors the shallow iterator of ByteBufferMessageSet: fewer than 4 bytes, or a partial entry after a whole one, end it
    without error.
    """
    at, end = 0, len(data)
    while end - at >= SIZE_FIELD:
        size = size_at(data, at)
        offset, left = initial_offset + at, end - at - SIZE_FIELD
        if size < 0 or size > left:
            if size < 0 or at == 0:
                yield Stopped(at, offset, _size_problem(size, left, offset))
            return
        message = message_at(data, at, size, offset, at)
        error = message.error
        if not message.valid:
            # an unknown codec comes first: 0.7.2 reads the codec for the message of the other exception
            yield Stopped(at, offset, error or _checksum_problem(message, initial_offset))
            return
        yield message
        at += SIZE_FIELD + size


def iterate_deep(
    data: bytes, initial_offset: int = 0, *, limit: int = MAX_DECOMPRESSED_BYTES, max_depth: int = MAX_DEPTH
) -> Iterator[MessageAndOffset | Stopped]:
    """Return the messages of a set as a consumer sees them, compressed sets opened. Mirrors ByteBufferMessageSet.iterator.

    See `open_sets` for the limits.
    """
    return open_sets(iterate_set(data, initial_offset), limit=limit, max_depth=max_depth)


def open_sets(
    messages: Iterator[MessageAndOffset | Stopped], *, limit: int = MAX_DECOMPRESSED_BYTES, max_depth: int = MAX_DEPTH
) -> Iterator[MessageAndOffset | Stopped]:
    """Return `messages` with every compressed set replaced by its messages, to any depth up to `max_depth`.

    All sets inside one of `messages`, nested or not, may have `limit` decompressed bytes together. A set that exceeds this, all
    sets after it, and a set nested too deeply are not opened: the wrapper is returned with the error `over-limit`. A wrapper
    with a wrong checksum is returned with `crc-mismatch`.
    As in 0.7.2, whose iterators read one message ahead, the message before a bad one inside a set is lost with it.
    """
    return _opened(messages, lambda: _Budget(limit), max_depth)


class _Budget:
    """The decompressed bytes left for the sets inside one entry; below 0: one of them needed more."""

    __slots__ = ("left", "limit")

    def __init__(self, limit: int) -> None:
        self.left = self.limit = limit


def _opened(
    messages: Iterator[MessageAndOffset | Stopped], budget: Callable[[], _Budget], depth: int
) -> Iterator[MessageAndOffset | Stopped]:
    """As open_sets. `budget` returns the budget of each compressed set among `messages`."""
    for item in messages:
        if isinstance(item, Stopped) or not item.codec or item.payload is None:
            yield item
        elif not item.valid:
            yield item._replace(error=item.crc_problem())
        elif item.error:
            yield _stopped_at(item, item.error)
            return
        else:
            for inner in _inside(item, budget(), depth):
                yield inner
                if isinstance(inner, Stopped):
                    return


def _inside(wrapper: MessageAndOffset, budget: _Budget, depth: int) -> Iterator[MessageAndOffset | Stopped]:
    from engine.record.codecs.codecs import InflateStatus, inflate

    if depth == 0:
        yield wrapper._replace(error=Problem("over-limit", "compressed sets are nested too deeply"))
        return
    over_limit = Problem("over-limit", f"the compressed sets of one entry hold more than {budget.limit} bytes together")
    if budget.left < 0:
        yield wrapper._replace(error=over_limit)
        return
    inflated = inflate(wrapper.codec or 0, wrapper.payload or b"", budget.left, magic=0)
    if inflated.status == InflateStatus.OVER_LIMIT:
        budget.left = -1
        yield wrapper._replace(error=over_limit)
        return
    if inflated.status != InflateStatus.OK:
        what = inflated.problem or "the compressed set cannot be decompressed"
        yield _stopped_at(wrapper, Problem("decompression-failed", what, IO_EXCEPTION))
        return
    held: MessageAndOffset | None = None
    data = memoryview(inflated.data).toreadonly()
    budget.left -= len(data)
    for item in _opened(iterate_set(data), lambda: budget, depth - 1):
        if isinstance(item, Stopped):
            yield _stopped_at(wrapper, item.error)
            return
        if held is not None:
            yield held
        held = item._replace(offset=wrapper.offset, next_offset=wrapper.offset, payload_position=None)
    if held is not None:
        yield held._replace(next_offset=wrapper.next_offset)


def _stopped_at(wrapper: MessageAndOffset, error: Problem) -> Stopped:
    position = (wrapper.payload_position or 0) - HEADER_V1 - SIZE_FIELD
    return Stopped(position, wrapper.offset, error)


def _size_problem(size: int, left: int, offset: int) -> Problem:
    message = (
        f"invalid message size: {size} only received bytes: {left} at {offset}( possible causes "
        "(1) a single message larger than the fetch size; (2) log corruption )"
    )
    if size < 0:
        return Problem("batch-size-invalid", f"size {size}", INVALID_MESSAGE_SIZE, message)
    return Problem("torn-tail", f"size {size}, but only {count_of(left, 'byte')} left", INVALID_MESSAGE_SIZE, message)


def _checksum_problem(message: MessageAndOffset, initial_offset: int) -> Problem:
    text = (
        f"message is invalid, compression codec: {CODEC_NAMES_07[message.codec or 0]} size: {message.size} "
        f"curr offset: {message.offset} init offset: {initial_offset}"
    )
    return message.crc_problem()._replace(exception=INVALID_MESSAGE, message=text)


def encode_set(payloads: Iterable[bytes | memoryview], magic: int = 1, codec: int = 0) -> bytes:
    """Return a set of messages of `magic`; with a codec (1 gzip, 2 snappy), the one entry that contains it compressed."""
    entries = b"".join([_encode_entry(payload, magic, 0) for payload in payloads])
    if not codec:
        return entries
    from engine.record.codecs.codecs import deflate

    return _encode_entry(deflate(codec, entries), 1, codec)


def _encode_entry(payload: bytes | memoryview, magic: int, attributes: int) -> bytes:
    checksum = crc32(payload)
    if magic:
        head = ENTRY_07.pack(Entry07(HEADER_V1 + len(payload), magic, attributes, checksum))
    else:
        head = ENTRY_07_V0.pack(Entry07V0(HEADER_V0 + len(payload), magic, checksum))
    return b"".join((head, payload))
