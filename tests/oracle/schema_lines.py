"""Writes tests/data/schema/decoder-lines.jsonl: what the real tool prints for records of every type and version.

    python -m tests.oracle.schema_lines
"""

from __future__ import annotations

import json
import random
import re
import tempfile
from pathlib import Path

from engine.schema.decode import DECODERS, decoder
from tests.oracle.jvm import Kafka
from tests.support.plain_records import plain_log
from tests.support.schema_bytes import mutate
from tests.support.schema_records import CATALOGUES, Pair, messages, sound_record

TARGET = Path(__file__).parent.parent / "data" / "schema" / "decoder-lines.jsonl"
LARGEST = 300  # bytes of a value: the file is read by people, too


def records(name: str) -> list[Pair]:
    """Two sound records of every type and version, damaged and odd ones."""
    rng = random.Random(name)
    chosen: list[Pair] = []
    for message in messages(CATALOGUES[name](), "value", "record"):
        for version in range(message.versions.lowest, message.versions.highest + 1):
            wanted = 2
            while wanted:
                key, value = sound_record(name, rng, message, version)
                if len(value or b"") < LARGEST and decoder(name).text(0, key, value)[2] is None:
                    chosen.append((key, value))
                    wanted -= 1
            chosen.append((key, mutate(rng, value or b"")))
    key, value = chosen[0]
    odd = [(key, None), (key, b"")] if key is not None else [(None, None), (None, b"")]
    if key is not None:
        odd += [(b"\0\x63" + key[2:], value), (b"\0", value), (key, b"\0\x63" + (value or b"")[2:])]
    return chosen + odd


def main() -> None:
    """Run the tool once per decoder, one line per record."""
    lines = []
    kafka = Kafka()
    with tempfile.TemporaryDirectory() as directory:
        for name in DECODERS:
            pairs = records(name)
            log = Path(directory) / "00000000000000000000.log"
            log.write_bytes(plain_log(pairs))
            ran = kafka.dump([f"--{name}-decoder", "--files", log.name], directory)
            assert ran.exit == 0, ran.stderr
            printed = re.split(r"\n\| offset: \d+ .*? headerKeys: \[\]|\nbaseOffset: .*", "\n" + ran.stdout.decode())
            texts = [text.rstrip("\n") for text in printed[1:] if text.strip()]
            assert len(texts) == len(pairs), (name, len(texts), len(pairs))
            for offset, ((key, value), text) in enumerate(zip(pairs, texts, strict=True)):
                lines.append(json.dumps({
                    "decoder": name, "offset": offset, "key": None if key is None else key.hex(),
                    "value": None if value is None else value.hex(),
                    "printed": split(text),
                }, ensure_ascii=False))  # fmt: skip
    kafka.close()
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text("\n".join(lines) + "\n", "utf-8")


def split(text: str) -> list[str | None]:
    """Key text and payload text of what stands behind the header keys."""
    key, payload = None, None
    if text.startswith(" key: "):
        key, mark, rest = text.removeprefix(" key: ").partition(" payload: ")
        payload = rest if mark else None
    elif text.startswith(" payload: "):
        payload = text.removeprefix(" payload: ")
    return [key, payload]


if __name__ == "__main__":
    main()
