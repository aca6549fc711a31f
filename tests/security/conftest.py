"""Log dirs that root and another user share."""

from __future__ import annotations

import shutil

import pytest

from tests.support.users import public_directory


@pytest.fixture(params=["reachable", "private"])
def top(request, tmp_path):
    """A directory of root's, to which others may walk or not."""
    if request.param == "private":
        tmp_path.chmod(0o700)
        yield tmp_path
        return
    with public_directory() as path:
        yield path


@pytest.fixture
def damaged(own_corpus, top):
    """A log dir of a killed broker, with damage."""
    shutil.copytree(own_corpus / "kafka-4.3.1/logs/unclean/d0", top / "d0")
    log = top / "d0/u-rolls-0/00000000000000000079.log"
    log.write_bytes(log.read_bytes()[:-3] + b"bad")
    return top / "d0"
