"""Aiven's encryption: AES-GCM for each chunk, with one key per segment that is wrapped by the operator's RSA key pair.

The only module that imports cryptography.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.errors import UnreadableFile, UsageError
from engine.remote.aiven_manifest import CorruptObject

if TYPE_CHECKING:
    from engine.files import ReadOnlyFiles

IV_SIZE, TAG_SIZE = 12, 16  # bytes before and after the ciphertext of a chunk
_DATA_KEY_SIZE = 32
_MAX_KEY_FILE = 64 << 10
_HASH_SIZE = hashlib.sha3_512().digest_size


class Seal(NamedTuple):
    """The encryption of one segment. `wrapped`: the data key in the form of the manifest, `id:base64`."""

    wrapped: str
    key: bytes
    aad: bytes

    def encrypt(self, data: bytes) -> bytes:
        """Encrypt a chunk → IV, ciphertext and tag."""
        iv = token_bytes(IV_SIZE)
        sealed: bytes = _library("hazmat.primitives.ciphers.aead").AESGCM(self.key).encrypt(iv, data, self.aad)
        return iv + sealed


class PrivateKeys:
    """RSA private keys from PEM files. `paths`: by the id of the key pair. Raises UsageError, UnreadableFile."""

    def __init__(self, files: ReadOnlyFiles, paths: dict[str, str]) -> None:
        self._numbers: dict[str, Any] = {}
        self._data_keys: dict[str, bytes] = {}
        for name, path in paths.items():
            serialization = _library("hazmat.primitives.serialization")
            try:
                key = serialization.load_pem_private_key(files.read(path, _MAX_KEY_FILE), password=None)
                self._numbers[name] = key.private_numbers()
            except (ValueError, TypeError, AttributeError) as error:
                raise UnreadableFile(f"{path}: not an RSA private key in PEM (PKCS#8)", path=path) from error

    def data_key(self, wrapped: str, path: str) -> bytes:
        """Unwrap the data key of a segment; `wrapped`: `id:base64`. Raises UsageError, CorruptObject."""
        if wrapped not in self._data_keys:
            name, _, text = wrapped.partition(":")
            if name not in self._numbers:
                what = f"{path}: the segment is encrypted under the key pair {name!r}"
                raise UsageError(what, f"give its private key: --private-key {name}=FILE", path=path)
            try:
                key = _unwrap(b64decode(text, validate=True), self._numbers[name])
            except (ValueError, Base64Error) as error:
                what = f"{path}: its key cannot be unwrapped by the private key {name!r}: {error}"
                raise CorruptObject(what, "check that --private-key names the file of that key pair", path=path) from error
            self._data_keys[wrapped] = key
        return self._data_keys[wrapped]

    def new_seal(self, name: str) -> Seal:
        """Make the seal of a new segment with the key pair `name`. Raises UsageError if its private key is not known."""
        if name not in self._numbers:
            what = f"segments of this store are encrypted under the key pair {name!r}, and new ones would not be"
            raise UsageError(what, f"give its private key: --private-key {name}=FILE; or let a broker copy them")
        key, public = token_bytes(_DATA_KEY_SIZE), self._numbers[name].public_numbers
        return Seal(f"{name}:{b64encode(_wrap(key, public)).decode()}", key, token_bytes(_DATA_KEY_SIZE))


def decrypt_chunk(data: bytes, key: bytes, aad: bytes) -> bytes:
    """Decrypt IV, ciphertext and tag. Raises ValueError if they do not match."""
    aead = _library("hazmat.primitives.ciphers.aead")
    if len(data) < IV_SIZE + TAG_SIZE:
        raise ValueError(f"{len(data)} bytes are less than an encrypted chunk has")
    try:
        plain: bytes = aead.AESGCM(key).decrypt(data[:IV_SIZE], data[IV_SIZE:], aad)
    except _library("exceptions").InvalidTag:
        raise ValueError("the authentication tag does not match") from None
    return plain


def _unwrap(wrapped: bytes, private: Any) -> bytes:
    """Unwrap a key by RSA-OAEP with SHA3-512 for hash and mask (RFC 8017). Raises ValueError.

    The cryptography package does not support this hash, so only the numbers of the key come from it.
    """
    size = (private.public_numbers.n.bit_length() + 7) // 8
    number = int.from_bytes(wrapped)
    if len(wrapped) != size or number >= private.public_numbers.n:
        raise ValueError("it is not as long as the key")
    first, second = pow(number, private.dmp1, private.p), pow(number, private.dmq1, private.q)
    padded = (second + (first - second) * private.iqmp % private.p * private.q).to_bytes(size)
    seed = _xor(padded[1 : 1 + _HASH_SIZE], _mask(padded[1 + _HASH_SIZE :], _HASH_SIZE))
    block = _xor(padded[1 + _HASH_SIZE :], _mask(seed, size - 1 - _HASH_SIZE))
    rest = block[_HASH_SIZE:].lstrip(b"\0")
    if padded[0] or block[:_HASH_SIZE] != hashlib.sha3_512().digest() or len(rest) != 1 + _DATA_KEY_SIZE or rest[0] != 1:
        raise ValueError("the padding does not match")
    return rest[1:]


def _wrap(key: bytes, public: Any) -> bytes:
    """Wrap a key. The inverse of `_unwrap`."""
    size = (public.n.bit_length() + 7) // 8
    block = hashlib.sha3_512().digest() + b"\1" + key
    block = block[:_HASH_SIZE] + bytes(size - 1 - _HASH_SIZE - len(block)) + block[_HASH_SIZE:]
    seed = token_bytes(_HASH_SIZE)
    masked = _xor(block, _mask(seed, len(block)))
    padded = b"\0" + _xor(seed, _mask(masked, _HASH_SIZE)) + masked
    wrapped: int = pow(int.from_bytes(padded), public.e, public.n)
    return wrapped.to_bytes(size)


def _mask(seed: bytes, size: int) -> bytes:
    """Return a mask of `size` bytes (MGF1)."""
    count = -(-size // _HASH_SIZE)
    return b"".join(hashlib.sha3_512(seed + number.to_bytes(4)).digest() for number in range(count))[:size]


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def _library(module: str) -> Any:
    from importlib import import_module

    try:
        return import_module(f"cryptography.{module}")
    except ImportError:
        what = "kafkalog needs the package cryptography for encrypted segments"
        raise UsageError(what, "pip install 'kafkalog[remote]'") from None
