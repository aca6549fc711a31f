# cython: language_level=3, boundscheck=False, wraparound=False
"""A key's digest: 128 bits under a secret, what the cleaner remembers in place of the key.

SipHash-1-3 with 128 bits of output: two keys never fall together in practice, and nobody who does not know the secret can
make two that do.
"""

import cython
from cython.cimports.engine.kernels import fields, tables

_LOW = cython.declare(cython.ulonglong, 0xFFFFFFFF)

_INIT_0 = cython.declare(cython.ulonglong, 0x736F6D6570736575)
_INIT_1 = cython.declare(cython.ulonglong, 0x646F72616E646F6D)
_INIT_2 = cython.declare(cython.ulonglong, 0x6C7967656E657261)
_INIT_3 = cython.declare(cython.ulonglong, 0x7465646279746573)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.ulonglong, cython.ulonglong, cython.ulonglong, cython.ulonglong))
def _round(v0: cython.ulonglong, v1: cython.ulonglong, v2: cython.ulonglong, v3: cython.ulonglong):
    """One SipRound."""
    v0 += v1
    v1 = (v1 << 13) | (v1 >> 51)
    v1 ^= v0
    v0 = (v0 << 32) | (v0 >> 32)
    v2 += v3
    v3 = (v3 << 16) | (v3 >> 48)
    v3 ^= v2
    v0 += v3
    v3 = (v3 << 21) | (v3 >> 43)
    v3 ^= v0
    v2 += v1
    v1 = (v1 << 17) | (v1 >> 47)
    v1 ^= v2
    v2 = (v2 << 32) | (v2 >> 32)
    return v0, v1, v2, v3


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _word(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.ulonglong:
    """`size` bytes, 8 at most, the first one lowest."""
    value: cython.ulonglong = 0
    while size > 0:
        size -= 1
        value = (value << 8) | data[at + size]
    return value


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _eight(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.ulonglong:
    """Eight bytes, the first one lowest."""
    value: cython.ulonglong = data[at + 7]
    value = (value << 8) | data[at + 6]
    value = (value << 8) | data[at + 5]
    value = (value << 8) | data[at + 4]
    value = (value << 8) | data[at + 3]
    value = (value << 8) | data[at + 2]
    value = (value << 8) | data[at + 1]
    return (value << 8) | data[at]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.ulonglong, cython.ulonglong))
def _digest(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, size: cython.Py_ssize_t,
             secret_0: cython.ulonglong, secret_1: cython.ulonglong):
    """128 bits of `size` bytes from `at` on; never two zeros, which stand for an empty slot."""
    v0: cython.ulonglong = _INIT_0 ^ secret_0
    v1: cython.ulonglong = _INIT_1 ^ secret_1 ^ 0xEE
    v2: cython.ulonglong = _INIT_2 ^ secret_0
    v3: cython.ulonglong = _INIT_3 ^ secret_1
    word: cython.ulonglong
    one: cython.ulonglong
    left: cython.Py_ssize_t = size
    step: cython.int
    while left >= 8:
        word = _eight(data, at)
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        at += 8
        left -= 8
    word = size & 255
    word = (word << 56) | _word(data, at, left)
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= 0xEE
    for step in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    one = v0 ^ v1 ^ v2 ^ v3
    v1 ^= 0xDD
    for step in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    word = v0 ^ v1 ^ v2 ^ v3
    return one | (one == 0 and word == 0), word


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.ulonglong, cython.ulonglong))
def digest(data: cython.const[cython.uchar][::1], secret_0: cython.ulonglong, secret_1: cython.ulonglong):
    """128 bits of `data`; never two zeros."""
    return _digest(data, 0, data.shape[0], secret_0, secret_1)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _expect(slots: cython.ulonglong[::1], count: cython.Py_ssize_t, one: cython.ulonglong) -> cython.void:
    """Let the processor fetch the slot where the digest most likely is: the map is larger than the caches."""
    slot_count: cython.ulonglong = count
    at: cython.ulonglong = ((one & _LOW) * slot_count >> 32) * tables.SLOT_WORDS
    prefetch(cython.address(slots[at]))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def digest_ahead(data: cython.const[cython.uchar][::1], records: cython.longlong[:, ::1], first: cython.Py_ssize_t,
                 end: cython.Py_ssize_t, answered: cython.const[cython.uchar][::1], secret_0: cython.ulonglong,
                 secret_1: cython.ulonglong, slots: cython.ulonglong[::1], count: cython.Py_ssize_t,
                 ones: cython.p_ulonglong, others: cython.p_ulonglong) -> cython.bint:
    """Digests of the keys of the records first … end − 1 to ones[0] and others[0] on, which have room for them.

    answered      by batch: not 0 where nobody will ask for them, as all of offset_map's verdicts but ASK
    slots, count  the map where they will be looked for next
    False: a key lies outside `data`, or there is no such batch.
    """
    index: cython.Py_ssize_t
    row: cython.Py_ssize_t
    key: cython.longlong
    size: cython.longlong
    for index in range(first, end):
        size = records[fields.R_KEY_SIZE, index]
        if size < 0: continue
        row = records[fields.R_BATCH, index]
        if row < 0 or row >= answered.shape[0]: return False
        if answered[row]: continue
        key = records[fields.R_KEY_POSITION, index]
        if key < 0 or size > data.shape[0] - key: return False
        ones[index - first], others[index - first] = _digest(data, key, size, secret_0, secret_1)
        _expect(slots, count, ones[index - first])
    return True
