"""Numbers in bytes: integers (big-endian, but for one), varints, sums as Java makes them; bytes from place to place.

Compiled kernels take them from numbers.pxd, to have them inlined; these are for the other build, and what those are
tested against. `data` are bytes, `at` a byte position; the caller has made sure that an integer lies within `data`.
"""

from engine.formats import INT_MAX

Bytes = bytes | bytearray | memoryview
Room = bytearray | memoryview  # bytes to be written

SPAN = 2**64


def i16(data: Bytes, at: int) -> int:
    """A signed integer of 16 bits."""
    return int.from_bytes(data[at:at + 2], "big", signed=True)


def u32(data: Bytes, at: int) -> int:
    """An unsigned integer of 32 bits."""
    return int.from_bytes(data[at:at + 4], "big")


def i32(data: Bytes, at: int) -> int:
    """A signed integer of 32 bits."""
    return int.from_bytes(data[at:at + 4], "big", signed=True)


def i64(data: Bytes, at: int) -> int:
    """A signed integer of 64 bits."""
    return int.from_bytes(data[at:at + 8], "big", signed=True)


def u32_le(data: Bytes, at: int) -> int:
    """An unsigned integer of 32 bits, little-endian."""
    return int.from_bytes(data[at:at + 4], "little")


def wrapped_sum(one: int, other: int) -> int:
    """one + other as Java adds longs: around at 2^63."""
    total = one + other
    return total if -SPAN // 2 <= total < SPAN // 2 else (total + SPAN // 2) % SPAN - SPAN // 2


def wrapped_difference(one: int, other: int) -> int:
    """one − other as Java subtracts longs."""
    return wrapped_sum(one, -other)


def fits_int(base: int, offset: int) -> bool:
    """0 <= offset − base <= 2^31 − 1: can files hold the difference?"""
    return 0 <= offset - base <= INT_MAX


def varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """A zigzag varint of 32 bits in data[at:end] → (value, position behind it).

    (0, −1) where it is cut off or longer than five bytes, or `at` is negative. Bits of the fifth byte beyond the 32nd
    are dropped, as Java drops them. Mirrors ByteUtils.readVarint.
    """
    return _zigzag(data, at, end, 32)


def varlong(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """A zigzag varint of 64 bits in data[at:end], like `varint`; up to ten bytes. Mirrors ByteUtils.readVarlong."""
    return _zigzag(data, at, end, 64)


def put_int(out: Room, at: int, value: int, size: int) -> int:
    """Write the low `size` bytes of `value`, big-endian; the caller has made sure that they fit → the position behind them."""
    out[at:at + size] = (value & ((1 << (8 * size)) - 1)).to_bytes(size, "big")
    return at + size


def raw_varint_size(value: int) -> int:
    """Bytes of an unsigned value as a varint; a signed one goes through zigzag before."""
    return max(1, (value.bit_length() + 6) // 7)


def put_raw_varint(out: Room, at: int, value: int) -> int:
    """Write an unsigned value as a varint; the caller has made sure that it fits → the position behind it."""
    while value >= 128:
        out[at] = (value & 127) | 128
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


def _zigzag(data: Bytes, at: int, end: int, bits: int) -> tuple[int, int]:
    raw = 0
    for shift in range(0, bits + 3, 7):
        if at < 0 or at >= end:
            return 0, -1
        byte = data[at]
        at += 1
        raw |= (byte & 127) << shift
        if byte < 128:
            raw &= (1 << bits) - 1
            return (raw >> 1) ^ -(raw & 1), at
    return 0, -1


def copy_bytes(out: Room, at: int, data: Bytes, start: int, size: int) -> int:
    """Put data[start:start + size] to out[at:]; both are long enough, and not the same memory → the position behind it."""
    out[at:at + size] = data[start:start + size]
    return at + size


def capacity_of(table: memoryview) -> int:
    """Columns of a table: a memoryview of two dimensions, fields × columns."""
    return table.nbytes // (table.itemsize * len(table))
