"""Doubles as Java 17's Double.toString prints them.

They are not always the shortest digits that identify the double: before Java 19 a variant of Steele and White's algorithm in
32-bit and 64-bit integers sometimes produced more digits (2^-44 is 5.6843418860808015E-14, 2E23 is 1.9999999999999998E23). This
module follows it, since the metadata log holds quotas as doubles.
"""

from __future__ import annotations

from math import floor
from struct import pack, unpack

_FRACTION_BITS = 52
_FRACTION = (1 << _FRACTION_BITS) - 1
_BIAS = 1023


def double_text(value: float) -> str:
    """Return `Double.toString(value)` of Java 17."""
    (bits,) = unpack(">Q", pack(">d", value))
    sign = "-" if bits >> 63 else ""
    exponent = bits >> _FRACTION_BITS & 0x7FF
    fraction = bits & _FRACTION
    if exponent == 0x7FF:
        return "NaN" if fraction else sign + "Infinity"
    if exponent == 0 and fraction == 0:
        return sign + "0.0"
    if exponent:
        digits, point = _digits(fraction | 1 << _FRACTION_BITS, exponent - _BIAS, _FRACTION_BITS + 1)
    else:  # subnormal: shift the highest bit into the place of the hidden one
        significant = fraction.bit_length()
        shift = _FRACTION_BITS + 1 - significant
        digits, point = _digits(fraction << shift, 1 - _BIAS - shift, significant)
    return sign + _layout(digits, point)


def _layout(digits: str, point: int) -> str:
    """Return decimal notation from 10^-3 to below 10^7, else an exponent; `point` is the decimal point's place in `digits`."""
    if 0 < point < 8:
        return f"{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    if -3 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    return f"{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _digits(fraction: int, exponent: int, significant: int) -> tuple[str, int]:
    """Return (digits, place of the decimal point) of fraction · 2^(exponent - 52); bit 52 of `fraction` is set."""
    trailing = (fraction & -fraction).bit_length() - 1
    fraction_bits = _FRACTION_BITS + 1 - trailing
    tiny_bits = max(0, fraction_bits - exponent - 1)
    if -21 <= exponent <= 62 and tiny_bits == 0:
        return _integer_digits(fraction, exponent, significant)
    decimal = _estimate(fraction, exponent)
    five = max(0, -decimal)
    two = five + tiny_bits + exponent
    scale_five = max(0, decimal)
    scale_two = scale_five + tiny_bits
    margin_two = two - significant
    two -= fraction_bits - 1
    common = min(two, scale_two)
    two, scale_two, margin_two = two - common, scale_two - common, margin_two - common
    if fraction_bits == 1:
        margin_two -= 1  # the gap below a power of two is half as wide
    if margin_two < 0:
        two, scale_two, margin_two = two - margin_two, scale_two - margin_two, 0
    size = fraction_bits + two + _five_bits(five)
    scale_size = scale_two + 1 + _five_bits(scale_five + 1)
    width = 32 if size < 32 and scale_size < 32 else 64 if size < 64 and scale_size < 64 else 0
    return _generate(
        (fraction >> trailing) * 5**five << two, 5**scale_five << scale_two, 5**five << margin_two, decimal, width,
    )


def _five_bits(power: int) -> int:
    """Return the number of bits of 5^power; for large powers the bound that Java uses."""
    return (5**power).bit_length() if 0 < power < 27 else 3 * power


def _integer_digits(fraction: int, exponent: int, significant: int) -> tuple[str, int]:
    """Return a whole number below 2^63: exact except for the digits that its bits do not determine."""
    shift = exponent - _FRACTION_BITS
    value = fraction << shift if shift >= 0 else fraction >> -shift
    unsure = exponent - significant - 1
    dropped = int(unsure * 0.30103) if unsure > 1 else 0
    if dropped:
        value, rest = divmod(value, 10**dropped)
        value += rest >= 10**dropped >> 1
    text = str(value)
    return text.rstrip("0"), len(text) + dropped


def _estimate(fraction: int, exponent: int) -> int:
    """Return the decimal exponent, or one less."""
    one_to_two = fraction / (1 << _FRACTION_BITS)
    return floor((one_to_two - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)


def _generate(value: int, scale: int, margin: int, decimal: int, width: int) -> tuple[str, int]:
    """Return digits of value / scale until the rest is within `margin`; `width` is Java's word size, 0 for its big integers."""
    half = 1 << width >> 1

    def wrap(number: int) -> int:
        return (number + half & (half << 1) - 1) - half if width else number

    ten_scale = scale * 10
    digit, value = divmod(value, scale)
    value, margin = value * 10, wrap(margin * 10)
    low = value < margin
    high = wrap(value + margin) > ten_scale if width else value + margin >= ten_scale
    digits: list[int] = []
    if digit == 0 and not high:
        decimal -= 1
    else:
        digits.append(digit)
    if not -3 <= decimal < 8:
        low = high = False  # the exponential form has at least two digits
    while not low and not high:
        digit, value = divmod(value, scale)
        value, margin = value * 10, wrap(margin * 10)
        if margin > 0 or not width:
            low = value < margin
            high = wrap(value + margin) > ten_scale if width else value + margin >= ten_scale
        else:
            low = high = True  # the margin exceeds the word
        digits.append(digit)
    twice = 2 * value
    if high and (not low or twice > ten_scale or (twice == ten_scale and digits[-1] % 2)):
        decimal += _round_up(digits)
    return "".join(map(str, digits)), decimal + 1


def _round_up(digits: list[int]) -> int:
    """Add one to the last digit in place; returns 1 if that carried into a new first digit, else 0."""
    at = len(digits) - 1
    while digits[at] == 9 and at > 0:
        digits[at] = 0
        at -= 1
    if digits[at] == 9:
        digits[0] = 1
        return 1
    digits[at] += 1
    return 0
