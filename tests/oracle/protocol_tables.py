"""Writes engine/protocol/table_*.py: the messages of Kafka's protocol, out of the descriptions inside the kafka-clients jar.

    python -m tests.oracle.protocol_tables
"""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

from engine.schema.notation import Versions
from tests.oracle.jvm import class_path

FOLDER = Path(__file__).parents[2] / "engine/protocol"
MODULES = {
    "table_data.py": (
        "Headers; APIs of producers and consumers that are not about groups",
        ["RequestHeader", "ResponseHeader"],
        [
            "Produce", "Fetch", "ListOffsets", "Metadata", "ApiVersions", "InitProducerId", "OffsetForLeaderEpoch", "AddPartitionsToTxn",
            "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit",
        ],
    ),
    "table_groups.py": (
        "APIs of groups",
        [],
        [
            "OffsetCommit", "OffsetFetch", "FindCoordinator", "JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup", "DescribeGroups",
            "ListGroups", "ConsumerGroupHeartbeat", "ConsumerGroupDescribe",
        ],
    ),
    "table_admin.py": (
        "APIs of Kafka's tools",
        [],
        [
            "DescribeConfigs", "DescribeLogDirs", "ListPartitionReassignments", "DescribeQuorum", "DescribeCluster", "DescribeProducers",
            "DescribeTransactions", "ListTransactions", "DescribeTopicPartitions",
        ],
    ),
}  # fmt: skip


def main() -> None:
    """Write the modules."""
    for name, text in modules().items():
        (FOLDER / name).write_text(text)


def modules() -> dict[str, str]:
    """Return the text of every module, by file name."""
    described = descriptions()
    out = {}
    for name, (title, headers, apis) in MODULES.items():
        messages = headers + [api + side for api in apis for side in ("Request", "Response")]
        blocks = "\n".join(notation(described[message]) for message in messages)
        out[name] = (
            f'"""{title} (Kafka 4.3.1; see engine/schema/notation.py).\n\n'
            f'`python -m tests.oracle.protocol_tables` writes this module.\n"""\n\n'
            f'from __future__ import annotations\n\nMESSAGES = """\n{blocks}"""\n'
        )
    out["table_admin.py"] += f'\n# requests whose headers can be decoded, but not their bodies\nOTHERS = """\n{_others(described)}\n"""\n'
    return out


def _others(described: dict[str, dict[str, Any]]) -> str:
    """Return the first lines of all other requests, for the constant OTHERS."""
    known = {api + "Request" for _, _, apis in MODULES.values() for api in apis}
    requests = [one for one in described.values() if one["type"] == "request" and one["name"] not in known]
    heads = [_head(one) for one in sorted(requests, key=lambda one: one["apiKey"]) if one["validVersions"] != "none"]
    return "\n\n".join(heads)


def descriptions() -> dict[str, dict[str, Any]]:
    """Return common/message/*.json of the kafka-clients jar, by the name of the message."""
    [jar] = [path for path in class_path().split(":") if re.search(r"kafka-clients-[\d.]+\.jar$", path)]
    with zipfile.ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(r"common/message/\w+\.json", name)]
        texts = [archive.read(name).decode() for name in names]
    parsed = [json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)) for text in texts]
    return {one["name"]: one for one in parsed}


def notation(message: dict[str, Any]) -> str:
    """Return the block of a message."""
    valid = Versions.parse(message["validVersions"])
    rows = list(_rows(message["fields"], valid, 1))
    for struct in message.get("commonStructs", []):
        rows.append(("  struct " + struct["name"], "", ""))
        rows += _rows(struct["fields"], valid, 2)
    plain = [row for row in rows if row[1]]
    names, types = (max((len(row[column]) for row in plain), default=0) for column in (0, 1))
    lines = [f"{name:{names}}  {kind:{types}}  {facts}".rstrip() for name, kind, facts in rows]
    return "\n".join([_head(message), *lines, ""])


def _head(message: dict[str, Any]) -> str:
    """Return the first line of a message."""
    head = f"message {message['name']}"
    if message["type"] != "header":
        head += f" {message['type']} {message['apiKey']}"
    flexible = "" if message["flexibleVersions"] == "none" else f" flexible {message['flexibleVersions']}"
    return f"{head} versions {message['validVersions']}{flexible}"


def _rows(fields: list[dict[str, Any]], valid: Versions, depth: int):
    """Return (indented name, type, facts) of each field and of those in its struct."""
    for field in fields:
        unknown = set(field) - {
            "name", "type", "versions", "nullableVersions", "taggedVersions", "tag", "default", "ignorable", "fields", "flexibleVersions",
            "about", "mapKey", "entityType",
        }  # fmt: skip
        assert not unknown, (field["name"], unknown)
        versions = _within(Versions.parse(field["versions"]), valid)
        if versions is None:
            continue
        kind = field["type"]
        if "nullableVersions" in field:
            nulls = _within(Versions.parse(field["nullableVersions"]), versions)
            kind += "?" + ("" if nulls == versions else _range(nulls, valid))
        yield "  " * depth + field["name"][0].lower() + field["name"][1:], kind, _facts(field, versions, valid)
        yield from _rows(field.get("fields", []), valid, depth + 1)


def _facts(field: dict[str, Any], versions: Versions, valid: Versions) -> str:
    facts = [] if versions == valid else [_range(versions, valid)]
    if "tag" in field:
        assert field["taggedVersions"] == field["versions"]
        facts.append(f"tag {field['tag']}")
    default = str(field.get("default", "")).lower()
    if re.fullmatch(r"0x[0-9a-f]+", default):
        default = str(int(default, 16))
    if default:
        assert re.fullmatch(r"null|true|false|-?\d+", default), default
        facts.append(f"= {default}")
    if field.get("ignorable"):
        facts.append("ignorable")
    if "flexibleVersions" in field:
        facts.append(f"flexible {field['flexibleVersions']}")
    return " ".join(facts)


def _within(versions: Versions, valid: Versions) -> Versions | None:
    low, high = max(versions.lowest, valid.lowest), min(versions.highest, valid.highest)
    return Versions(low, high) if low <= high else None


def _range(versions: Versions, valid: Versions) -> str:
    if versions.highest == valid.highest:
        return f"{versions.lowest}+"
    return f"{versions.lowest}-{versions.highest}" if versions.lowest < versions.highest else str(versions.lowest)


if __name__ == "__main__":
    main()
