"""What the tests of packages fetch from Debian's archive, without installing it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.needs import lacking


@pytest.fixture(scope="session")
def apt_get(tmp_path_factory):
    """The words of an `apt-get` that has lists of its own: of packages and of sources, from where this machine has its packages."""
    program, home = shutil.which("apt-get"), tmp_path_factory.mktemp("apt")
    if program is None:
        lacking("needs apt-get")
    (home / "lists/partial").mkdir(parents=True)
    (home / "sources").mkdir()
    for path in Path("/etc/apt").glob("sources.list*/*.sources"):
        (home / "sources" / path.name).write_text(path.read_text().replace("Types: deb\n", "Types: deb deb-src\n"))
    settings = {"Dir::Etc::sourcelist": "-", "Dir::Etc::sourceparts": home / "sources", "Dir::State::lists": home / "lists", "APT::Sandbox::User": "root"}
    words = [program, "-qq", *(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))]
    subprocess.run([*words, "update"], check=True)
    return words
