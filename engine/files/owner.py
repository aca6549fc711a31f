"""Whose files are: a broker that is not root could not open those that root makes."""

from __future__ import annotations

import os

from engine.files.refusals import unwritable

ROOT = 0  # a user


def is_root() -> bool:
    """May this process change everybody's files?"""
    return os.geteuid() == ROOT


def hand_over(path: str, descriptor: int | None = None) -> None:
    """Give what root has made at `path` to the owner of its directory. Others own what they make.

    descriptor  of the file, which is closed if that fails; None: a directory. Raises UnwritableFile.
    """
    if not is_root():
        return
    made = path if descriptor is None else descriptor
    try:
        owner = os.stat(os.path.dirname(path) or ".")
        if owner.st_uid != ROOT and os.stat(made).st_uid == ROOT:
            os.chown(made, owner.st_uid, owner.st_gid)
    except OSError as error:
        if descriptor is not None:
            os.close(descriptor)
        raise unwritable(path, error) from error
