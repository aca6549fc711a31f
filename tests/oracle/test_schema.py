"""Random records of every internal topic through the real tool's decoders and ours, line by line."""

import random

import pytest

from engine.schema.decode import DECODERS, decoder
from tests.support.plain_records import plain_log
from tests.support.schema_records import random_record

pytestmark = pytest.mark.oracle
RECORDS = 2000


def our_line(name, offset, key, value):
    """The line of `--skip-record-metadata`."""
    key_text, payload, _ = decoder(name).text(offset, key, value)
    parts = ["" if key_text is None else f" key: {key_text}", "" if payload is None else f" payload: {payload}"]
    return "|" + "".join(parts) + "\n" if any(parts) else "\n"


@pytest.mark.parametrize("damaged", [False, True], ids=["sound", "damaged"])
@pytest.mark.parametrize("name", DECODERS)
def test_random_records(real_dump, work, name, damaged):
    rng = random.Random(f"{name} {damaged}")
    records = [random_record(name, rng, damaged=damaged) for _ in range(RECORDS)]
    (work / "00000000000000000000.log").write_bytes(plain_log(records, per_batch=RECORDS))
    log = "00000000000000000000.log"
    ran = real_dump([f"--{name}-decoder", "--skip-record-metadata", "--files", log], work)
    assert ran.exit == 0
    # lines cannot be told apart by line ends: texts hold any character
    _, _, _, rest = ran.stdout.decode().split("\n", 3)
    for offset, (key, value) in enumerate(records):
        line = our_line(name, offset, key, value)
        assert rest.startswith(line), f"record {offset}: key {key!r}, value {value!r}, Kafka: {rest[:2000]!r}"
        rest = rest[len(line) :]
    assert rest == ""
