"""Captured frames of the corpus, with what Kafka's own classes read in them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from engine.protocol.frames import decode_request_header

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.protocol.frames import RequestHeader


class Captured(NamedTuple):
    """A frame with its size in front; `header` is that of the request, `facts` the line of frames.jsonl."""

    header: RequestHeader
    is_request: bool
    framed: bytes
    facts: dict

    @property
    def frame(self) -> bytes:
        return self.framed[4:]


def sessions(top: Path) -> list[Path]:
    """The folders of sessions below `top`."""
    return sorted(path.parent for path in top.rglob("frames.bin"))


def captured(session: Path) -> Iterator[Captured]:
    """All frames of a session."""
    stream = (session / "frames.bin").read_bytes()
    headers: dict[int, RequestHeader] = {}
    for line in (session / "frames.jsonl").read_text().splitlines():
        facts = json.loads(line)
        if "n" not in facts:
            continue
        framed = stream[facts["at"] : facts["at"] + facts["size"]]
        if facts["direction"] == "request":
            headers[facts["n"]], _ = decode_request_header(framed[4:])
        header = headers[facts.get("request", facts["n"])]
        yield Captured(header, facts["direction"] == "request", framed, facts)
