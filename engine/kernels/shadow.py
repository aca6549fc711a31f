"""What the kernels need of the module `cython` when nobody compiled them and Cython is not installed.

Cython's own shadow module does the same for everything that the language has: decorators give the function back, types
are only names, `declare` is its value. The package puts this in its place where `import cython` would fail.
"""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")

compiled = False


class Type:
    """A C type that is only written down: `uchar[::1]`, `const[uint]`."""

    def __getitem__(self, _shape: Any) -> Type:
        return self


class NoGil:
    """`@nogil` and `with nogil:`, both without effect."""

    def __call__(self, function: T) -> T:
        return function

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_error: object) -> None:
        return None


bint = int = uint = void = short = ushort = longlong = ulonglong = uchar = Py_ssize_t = Type()  # noqa: A001  # Cython's names
p_uchar = p_ulonglong = const = Type()
nogil = NoGil()


def declare(_type: Any, value: T) -> T:
    """The value of a typed constant."""
    return value


def cfunc(function: T) -> T:
    """Any decorator without arguments."""
    return function


ccall = inline = cfunc


def returns(_type: Any) -> Any:
    """Any decorator with arguments."""
    return cfunc


def exceptval(*_values: Any, **_options: Any) -> Any:
    """Any decorator with arguments."""
    return cfunc
