"""Measure kafkalog against Kafka. `make bench`, or `make bench BENCH="--quick --only print"`.

Each group of rows is kept when it is done: after a stop `--resume` goes on behind it. One that fails is named at the end,
and the others are measured all the same.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.bench import (
    bucket,
    checking,
    compaction,
    comparing,
    dumping,
    fetching,
    listing,
    producing,
    reading,
    recovering,
    searching,
    sending,
    serving,
)
from tests.bench.append import append_results
from tests.bench.report import Measured, Result, machine_facts, markdown, table, update
from tests.bench.setting import TOOL_OPTIONS, Bench
from tests.oracle.jvm import missing_programs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ROOT = Path(__file__).resolve().parents[2]


class Group(NamedTuple):
    """Rows that are measured together. `heading` in the documents; `in_short`: so many of its first rows go to the README."""

    heading: str
    measure: Callable[[Bench], Iterable[Result]]
    in_short: int = 0


def _dump(name: str) -> Callable[[Bench], Iterable[Result]]:
    return lambda bench: dumping.dumps(bench, name)


def _compact(codec: str) -> Callable[[Bench], Iterator[Result]]:
    def measured(bench: Bench) -> Iterator[Result]:
        yield compaction.compare_codec(bench.engine, bench.kafkalog, bench.home, codec, _to_compact(bench), bench.runs)

    return measured


def _compact_two(bench: Bench) -> Iterator[Result]:
    for codec in compaction.CODECS:
        two = compaction.two_at_once(bench.engine, bench.kafkalog, bench.home, codec, _to_compact(bench), bench.runs)
        yield two._replace(work="compact --jobs 2", rival="--jobs 1")


def _compact_transactions(bench: Bench) -> Iterator[Result]:
    yield compaction.compare_transactions(bench.engine, bench.kafkalog, bench.home, bench.records, bench.runs)


def _compact_keys(bench: Bench) -> Iterable[Result]:
    return compaction.curve(bench.engine, bench.kafkalog, bench.home, bench.keys)


def _to_compact(bench: Bench) -> int:
    return bench.records * 5_000_000 // 1_130_000


_DUMP, _COLUMNS, _INDEX = "Showing logs", "Decoding records, in a warm process", "Checking indexes"
_OPEN, _APPEND, _COMPACT, _START = "Recovering and opening", "Appending and reading", "Compacting", "Start and memory"
_WIRE, _REMOTE = "Producers and the wire", "Remote storage"
GROUPS = {
    "print": Group(_DUMP, _dump("print"), 2),
    "deep": Group(_DUMP, _dump("deep")),
    "shallow": Group(_DUMP, _dump("shallow")),
    "jsonl": Group(_DUMP, _dump("jsonl"), 1),
    "by-two": Group(_DUMP, fetching.by_two),
    "timeindex": Group(_DUMP, _dump("timeindex")),
    "search": Group(_DUMP, searching.search),
    "diff": Group(_DUMP, lambda bench: [comparing.compare(bench)]),
    "export": Group(_DUMP, comparing.export),
    "report": Group(_OPEN, comparing.report),
    "metadata": Group(_OPEN, comparing.metadata),
    "columns": Group(_COLUMNS, dumping.columns),
    "verify": Group(_INDEX, reading.verify_index, 1),
    "recover": Group(_OPEN, recovering.recover, 1),
    "open": Group(_OPEN, recovering.open_many),
    "ls": Group(_OPEN, listing.ls),
    "check": Group(_OPEN, checking.check),
    "transactions": Group(_OPEN, producing.recover_transactions),
    "producers": Group(_OPEN, producing.recover_producers),
    "append": Group(_APPEND, append_results, 1),
    "raw": Group(_APPEND, reading.raw),
    "fetch": Group(_APPEND, fetching.beside_dump_log),
    "client": Group(_APPEND, fetching.beside_client),
    "serve": Group(_WIRE, serving.serve),
    "produce": Group(_WIRE, sending.produce),
    "requests": Group(_WIRE, sending.requests),
    "lookup": Group(_APPEND, reading.lookup),
    **{f"compact-{codec}": Group(_COMPACT, _compact(codec), int(codec == "none")) for codec in compaction.CODECS},
    "compact-transactions": Group(_COMPACT, _compact_transactions),
    "compact-two": Group(_COMPACT, _compact_two),
    "compact-keys": Group(_COMPACT, _compact_keys),
    "remote-list": Group(_REMOTE, listing.remote_list),
    "bucket": Group(_REMOTE, bucket.in_bucket),
    "start": Group(_START, dumping.starts),
    "memory": Group(_START, dumping.memory),
}


class Kept:
    """What is measured so far, by group, in a file."""

    def __init__(self, path: Path, runs: int) -> None:
        self._path, self._runs = path, runs
        self.groups: dict[str, Measured] = {}

    def load(self) -> None:
        """Take over what an earlier run with as many runs of each program left."""
        if self._path.exists():
            document = json.loads(self._path.read_text())
            if document["runs"] == self._runs:
                self.groups = {name: Measured.of_json(one) for name, one in document["groups"].items() if name in GROUPS}

    def put(self, name: str, measured: Measured) -> None:
        """Keep the rows of a group."""
        self.groups[name] = measured
        document = {"runs": self._runs, "groups": {name: one.as_json() for name, one in self.groups.items()}}
        fresh = self._path.with_suffix(".tmp")
        fresh.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        fresh.replace(self._path)

    def results(self) -> list[Result]:
        """All rows, in the order of the groups."""
        return [result for name in GROUPS if name in self.groups for result in self.groups[name].results]


def measure(bench: Bench, name: str) -> Measured:
    """The rows of a group, each printed when it is there."""
    load, results = os.getloadavg()[0], []
    start = time.monotonic()
    print(f"{name} (load {load:.1f})", flush=True)
    try:
        for one in GROUPS[name].measure(bench):
            results.append(one)
            print(f"  {table([one]).splitlines()[1]}", flush=True)
    except Exception as error:  # noqa: BLE001  # whatever it is, the other groups are measured
        print(f"  FAILED {name}: {error}", flush=True)
        said = str(error).splitlines() or [type(error).__name__]
        return Measured(results, load, " … ".join(dict.fromkeys((said[0], said[-1]))))
    print(f"  {time.monotonic() - start:.0f} s", flush=True)
    return Measured(results, load)


def documents(kept: Kept, facts: list[str]) -> None:
    """Write the tables into docs/benchmarks.md and README.md."""
    notes = "\n".join(f"- {fact}" for fact in facts)
    sections = []
    for heading in dict.fromkeys(group.heading for group in GROUPS.values()):
        rows = [one for name, group in GROUPS.items() if group.heading == heading for one in kept.groups[name].results]
        sections.append(f"### {heading}\n\n{markdown(rows, with_wanted=True)}")
    short = [one for name, group in GROUPS.items() for one in kept.groups[name].results[: group.in_short]]
    for path, text in ((ROOT / "docs" / "benchmarks.md", "\n\n".join([*sections, notes])),
                       (ROOT / "README.md", f"{markdown(short, with_wanted=False)}\n\n- {facts[0]}\n- {facts[1]}")):  # fmt: skip
        print(f"{path.name}: {'updated' if update(path, text) else 'has no markers, left as it is'}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="runs of each program per row (3)")
    parser.add_argument("--records", type=int, default=1_130_000, help="records of each segment (1130000, 128 MiB)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the records, a large file of 256 MiB")
    parser.add_argument("--keys", type=int, metavar="N",
                        help="the most keys that compact-keys takes: 1, 10 or 100 million (10 million; --quick: 1 million).\n"
                        "100 million are 7 GB and take minutes")
    parser.add_argument("--only", action="append", choices=GROUPS, help="only these groups; may be given again")
    parser.add_argument("--resume", action="store_true", help="go on behind the groups that were measured before")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE")
    parser.add_argument("--update-docs", action="store_true",
                        help="write the tables into docs/benchmarks.md and README.md, once every group is measured")
    return parser.parse_args()


def main() -> int:
    """Measure and report → exit status: 2 where something could not be measured or compared."""
    options = arguments()
    if missing := missing_programs():
        print(f"bench compares with real Kafka and needs {', '.join(missing)}", file=sys.stderr)
        return 2
    os.environ["PYTHONPATH"] = str(ROOT)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # installed programs have their byte code
    os.environ["LC_ALL"] = "C.UTF-8"
    records = options.records // 10 if options.quick else options.records
    home = ROOT / "build" / "bench" / str(records)
    bench = Bench(home, records, options.runs, quick=options.quick, keys=options.keys)
    kept = Kept(home / "results.json", options.runs)
    if options.resume or options.only:
        kept.load()
    for name in options.only or GROUPS:
        if not options.resume or name not in kept.groups or kept.groups[name].failed:
            kept.put(name, measure(bench, name))
    return report(kept, options, records)


def report(kept: Kept, options: argparse.Namespace, records: int) -> int:
    """Print all that is measured, and write what was asked for → exit status."""
    results = kept.results()
    facts = machine_facts(TOOL_OPTIONS, records, options.runs, [one.load for one in kept.groups.values()])
    print("\n" + table(results) + "\n\n" + "\n".join(facts))
    if options.json:
        document = {"results": [one.as_json() for one in results], "facts": facts}
        options.json.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    failed = {name: one.failed for name, one in kept.groups.items() if one.failed}
    for name, why in failed.items():
        print(f"FAILED {name}: {why}")
    unmeasured = [name for name in GROUPS if name not in kept.groups or name in failed]
    if options.update_docs and unmeasured:
        print(f"the documents stay as they are: not measured are {', '.join(unmeasured)}; --resume goes on with them")
    elif options.update_docs:
        documents(kept, facts)
    if options.quick:
        print("quick: start-up counts for more than the work here; the targets are for full size")
    missed = [one for one in results if not one.met]
    print(f"{len(missed)} targets missed" if missed else "every target is met")
    for one in missed:
        print(f"  {table([one]).splitlines()[1]}")
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
