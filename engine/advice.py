"""File names inside commands that people are told to run."""

from __future__ import annotations


def argument(path: str) -> str:
    r"""`path` as a shell takes it for one argument, and no command for an option.

    What is not printable, bytes that are not UTF-8 among it, is escaped as `$'\x0a'`, which bash and zsh understand.
    """
    from shlex import quote  # few programs have any advice to give

    if path.startswith("-"):
        path = f"./{path}"
    if path.isprintable():
        return quote(path)
    return f"$'{''.join(map(_escaped, path))}'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
