"""Random, seeded damage to a partition directory, as crashes, disks, operators and other tools cause it."""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING

from engine.record.windows import crc32c

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

BATCH = struct.Struct(">qiibIhiqqqhii")  # header of format 2


def damage(directory: Path, random: Random) -> str:
    """Damage the files of `directory` in one way → its description."""
    act = random.choice(ACTS)
    return f"{act.__name__}: {act(directory, random)}"


def _pick(directory: Path, random: Random, pattern: str) -> Path | None:
    found = sorted(directory.glob(pattern))
    return random.choice(found) if found else None


def _last_or_any(directory: Path, random: Random) -> Path | None:
    found = sorted(directory.glob("*.log"))
    if not found:
        return None
    return found[-1] if random.random() < 0.5 else random.choice(found)


def _base(path: Path) -> str:
    return path.name.partition(".")[0]


def batches(data: bytes) -> list[tuple[int, int]]:
    """(position, size) of every batch whose size fits."""
    found, at = [], 0
    while at + 17 <= len(data):
        size = 12 + struct.unpack_from(">i", data, at + 8)[0]
        if size < 26 or at + size > len(data):
            break
        found.append((at, size))
        at += size
    return found


def cut_log(directory, random):
    log = _last_or_any(directory, random)
    if log is None or not log.stat().st_size:
        return None
    size = log.stat().st_size
    keep = random.choice([random.randrange(size), max(0, size - random.randrange(1, 40)), 0])
    with log.open("r+b") as file:
        file.truncate(keep)
    return log.name, keep


def flip_byte(directory, random):
    log = _last_or_any(directory, random)
    if log is None or not log.stat().st_size:
        return None
    data = bytearray(log.read_bytes())
    found = batches(data)
    in_header = found and random.random() < 0.7
    at = random.choice(found)[0] + random.randrange(61) if in_header else random.randrange(len(data))
    if at < len(data):
        data[at] ^= 1 << random.randrange(8)
        log.write_bytes(data)
    return log.name, at


def lengthen_log(directory, random):
    log = _last_or_any(directory, random)
    if log is None:
        return None
    tail = random.choice([bytes(random.randrange(1, 200)), random.randbytes(random.randrange(1, 200)), b"\xff" * 30])
    if random.random() < 0.3:
        tail = log.read_bytes()[: random.randrange(100)]
    with log.open("ab") as file:
        file.write(tail)
    return log.name, len(tail)


def change_header(directory, random):
    """Change a field of a batch header and the checksum: the batch is valid but unusual."""
    log = _last_or_any(directory, random)
    if log is None:
        return None
    data = bytearray(log.read_bytes())
    found = [(at, size) for at, size in batches(data) if data[at + 16] == 2 and size >= 61]
    if not found:
        return None
    at, size = random.choice(found)
    values = list(BATCH.unpack_from(data, at))
    field = random.choice([0, 0, 2, 2, 3, 5, 6, 7, 8, 9, 9, 10, 11, 12])
    base = values[0]
    values[field] = {
        0: lambda: random.choice(
            [base + 1, base - 1, base + random.randrange(50), max(0, base - random.randrange(50)), base + 2**31, 0]
        ),
        2: lambda: random.choice([-1, 0, 1, 5, values[2] + 1, values[2] + 7]),
        3: lambda: random.choice([3, 5, 127, 2]),
        5: lambda: values[5] ^ random.choice([0x8, 0x10, 0x10, 0x20, 0x40, 1]),
        6: lambda: random.choice([0, 1, values[6] + 1, -1, 1000, 2**31 - 1]),
        7: lambda: random.choice([-1, 0, values[7] - 1000]),
        8: lambda: random.choice([-1, 0, values[8] + 100_000, values[8] - 100_000, 2**62]),
        9: lambda: random.choice([-1, 0, 1000, 1001, 1002, 7, 2**40]),
        10: lambda: random.choice([-1, 0, 1, 3, 32767]),
        11: lambda: random.choice([-1, 0, 5, 2**31 - 1]),
        12: lambda: random.choice([0, 1, values[12] + 1, -1]),
    }[field]()
    BATCH.pack_into(data, at, *values)
    struct.pack_into(">I", data, at + 17, crc32c(bytes(data[at + 21 : at + size])))
    log.write_bytes(data)
    return log.name, at, field, values[field]


def move_batches(directory, random):
    """Remove, duplicate or swap batches."""
    log = _last_or_any(directory, random)
    if log is None:
        return None
    data = log.read_bytes()
    parts = [data[at : at + size] for at, size in batches(data)]
    if len(parts) < 2:
        return None
    one, other = random.randrange(len(parts)), random.randrange(len(parts))
    way = random.choice(["drop", "double", "swap"])
    if way == "drop":
        del parts[one]
    elif way == "double":
        parts.insert(other, parts[one])
    else:
        parts[one], parts[other] = parts[other], parts[one]
    log.write_bytes(b"".join(parts))
    return log.name, way, one, other


def remove_file(directory, random):
    kind = random.choice(
        ["*.index", "*.index", "*.timeindex", "*.txnindex", "*.snapshot", "*.snapshot", "*.log", "leader-epoch-checkpoint"]
    )
    path = _pick(directory, random, kind)
    if path is not None:
        path.unlink()
    return path and path.name


def remove_all(directory, random):
    kind = random.choice(["*.index", "*.timeindex", "*.snapshot", "*.txnindex", "*index"])
    for path in directory.glob(kind):
        path.unlink()
    return kind


def spoil_index(directory, random):
    path = _pick(directory, random, random.choice(["*.index", "*.timeindex", "*.txnindex"]))
    if path is None:
        return None
    data = bytearray(path.read_bytes())
    way = random.choice(["zeros", "cut", "garbage", "flip", "empty", "append"])
    if way == "zeros":
        data += bytes(random.choice([8, 12, 24, 100, 1200]))
    elif way == "cut":
        del data[random.randrange(len(data) + 1) :]
    elif way == "garbage":
        data = bytearray(random.randbytes(len(data)))
    elif way == "flip" and data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    elif way == "empty":
        data = bytearray()
    else:
        data += random.randbytes(random.randrange(1, 40))
    path.write_bytes(data)
    return path.name, way


def spoil_snapshot(directory, random):
    path = _pick(directory, random, "*.snapshot")
    if path is None:
        return None
    data = bytearray(path.read_bytes())
    way = random.choice(["flip", "cut", "longer", "rename"])
    if way == "flip":
        data[random.randrange(len(data))] ^= 1
    elif way == "cut":
        del data[random.randrange(len(data)) :]
    elif way == "longer":
        data += bytes(5)
    else:
        path = path.rename(directory / f"{random.randrange(400):020d}.snapshot")
        return path.name, way
    path.write_bytes(data)
    return path.name, way


def spoil_epochs(directory, random):
    path = directory / "leader-epoch-checkpoint"
    text = random.choice(
        [
            "",
            "0\n0\n",
            "0\n1\n0 0\n",
            "0\n2\n0 0\n1 20\n",
            "0\n3\n0 0\n5 10\n9 100000\n",
            "0\n3\n0 5\n2 3\n1 40\n",
            "0\n2\n3 10\n3 20\n",
            "0\n1\n0 0",
            "0\n2\n0 0\n",
            "garbage\n",
            "1\n1\n0 0\n",
            "0\n1\n-1 0\n",
            "0\n4\n0 0\n1 7\n2 7\n3 30\n",
        ]
    )
    path.write_text(text)
    return text


def half_done(directory, random):
    """Add or remove the suffixes of unfinished work."""
    path = _pick(directory, random, "*.log")
    if path is None:
        return None
    suffix = random.choice([".deleted", ".cleaned", ".swap", ".swap"])
    way = random.choice(["all", "log", "index", "copy", "copies", "some"])
    kinds = {
        "all": ["log", "index", "timeindex", "txnindex"],
        "log": ["log"],
        "index": ["index"],
        "copy": ["log"],
        "copies": ["log", "index", "timeindex", "txnindex"],
        "some": random.sample(["log", "index", "timeindex"], 2),
    }[way]
    for kind in kinds:
        file = directory / f"{_base(path)}.{kind}"
        if file.exists():
            target = directory / (file.name + suffix)
            shutil.copyfile(file, target) if way.startswith("cop") else file.rename(target)
    return path.name, suffix, way


def odd_name(directory, random):
    path = _pick(directory, random, "*.*")
    name = random.choice(
        [
            "123.log",
            "5.index",
            "7.timeindex",
            "12.snapshot",
            "00000000000000000099.txnindex",
            "00000000000000000003.log.swap",
            "00000000000000000005.index.swap",
            "00000000000000000050.log.cleaned",
            "9.deleted",
            "00000000000000000000.log.tmp",
            "partition.metadata.tmp",
            "1.foo.log",
            "00000000000000000002.timeindex.swap",
            "-5.index",
            "+7.log",
        ]
    )
    data = b"" if path is None or random.random() < 0.3 else path.read_bytes()
    (directory / name).write_bytes(data)
    return name, len(data)


def empty_segment(directory, random):
    log = _pick(directory, random, "*.log")
    base = int(_base(log)) if log else 0
    name = directory / f"{base + random.choice([0, 1, 10, 500]):020d}.log"
    if not name.exists():
        name.write_bytes(b"")
    return name.name


def copy_segment(directory, random):
    """Copy a segment to another base offset."""
    log = _pick(directory, random, "*.log")
    if log is None:
        return None
    base = max(0, int(_base(log)) + random.choice([-1, 1, -7, 13]))
    for kind in ("log", "index", "timeindex"):
        source, target = directory / f"{_base(log)}.{kind}", directory / f"{base:020d}.{kind}"
        if source.exists() and not target.exists() and (kind == "log" or random.random() < 0.7):
            shutil.copyfile(source, target)
    return log.name, base


ACTS = [
    cut_log,
    cut_log,
    flip_byte,
    flip_byte,
    lengthen_log,
    change_header,
    change_header,
    move_batches,
    remove_file,
    remove_file,
    remove_all,
    spoil_index,
    spoil_index,
    spoil_snapshot,
    spoil_epochs,
    half_done,
    half_done,
    odd_name,
    empty_segment,
    copy_segment,
]
