"""Run mutants: `python -m tests.fuzz --count 1000000 --jobs 2`, or one again: `python -m tests.fuzz --seed 7 --only 4711`.

Workers are processes of their own: one that crashes or hangs in a kernel is noticed, its case saved, its work goes on
in another one. Ends with status 1 if any case failed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SAVED = ROOT / "build" / "fuzz"
TIME_LIMIT = 10  # seconds for one case; the slowest sound one takes some hundredths
SILENCE = 60  # seconds without progress: a kernel hangs where no signal handler runs
MEMORY = 1 << 30  # bytes of address space that a worker may add to what it has when it begins
REPORT_EVERY = 500
_KEPT = 20  # failures of one kind that are saved


class TooSlow(BaseException):
    """A case took longer than TIME_LIMIT. No `except Exception` may swallow it."""


def main() -> int:
    arguments = parsed()
    if arguments.only is not None:
        return again(arguments.seed, arguments.only)
    if arguments.worker is not None:
        return worker(arguments.seed, *arguments.worker)
    return Parent(arguments.seed, arguments.count, arguments.jobs).run()


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Dump mutants of real files; see tests/fuzz.")
    parser.add_argument("--count", type=int, default=1_000_000, help="how many cases")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000), help="which ones")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="run this case alone, with its traceback")
    parser.add_argument("--worker", type=int, nargs=3, metavar=("FIRST", "STEP", "END"), help=argparse.SUPPRESS)
    return parser.parse_args()


# ---- one worker: writes JSON lines


def worker(seed: int, first: int, step: int, end: int) -> int:
    """Cases first, first + step, … below `end`. Says before each block where it is, so that a crash can be found."""
    from tests.fuzz.cases import make_case
    from tests.fuzz.frames import check_mutant, make_mutant
    from tests.fuzz.laws import check
    from tests.fuzz.requests import check_session, make_session

    make_case(seed, 0)  # unpacks the corpus
    make_mutant(seed, 0)
    check_session(make_session(seed, 0))
    limit_memory()
    signal.signal(signal.SIGALRM, _too_slow)
    unraisable: list[str] = []  # what a kernel cannot raise: with bounds checks, an index outside its buffer
    sys.unraisablehook = lambda found: unraisable.append(f"{found.exc_value!r} in {found.object}")
    progress = Path(os.environ["KAFKALOG_FUZZ_PROGRESS"]) if "KAFKALOG_FUZZ_PROGRESS" in os.environ else None
    with progress.open("r+b", buffering=0) if progress else open(os.devnull, "r+b", buffering=0) as place:
        for number in range(first, end, step):
            place.seek(0)
            place.write(number.to_bytes(8, "big"))
            problem = None
            signal.setitimer(signal.ITIMER_REAL, TIME_LIMIT)
            try:
                check(make_case(seed, number))
                check_mutant(make_mutant(seed, number))
                check_session(make_session(seed, number))
            except (Exception, TooSlow) as error:  # noqa: BLE001  # everything but KafkalogError is what we look for
                problem = error
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            if unraisable:
                say(number=number, kind=f"unraisable: {unraisable[0]}", what=unraisable[0])
                unraisable.clear()
            if problem is not None:
                say(number=number, kind=kind_of(problem), what=f"{type(problem).__name__}: {str(problem)[:300]}")
            if (number - first) // step % REPORT_EVERY == 0:
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
                say(done=(number - first) // step + 1, peak_mib=peak)
    say(finished=True)
    return 0


def limit_memory() -> None:
    """No more than MEMORY beyond what is in use. Sanitizers reserve terabytes: they have limits of their own."""
    if "KAFKALOG_FUZZ_SANITIZED" in os.environ:
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _too_slow(*_: object) -> None:
    raise TooSlow(f"more than {TIME_LIMIT} s")


def kind_of(error: BaseException) -> str:
    """Where it came from: failures of one kind are most likely one bug."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"


def say(**values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


# ---- the parent


class Span(NamedTuple):
    """Cases first, first + step, … below end."""

    first: int
    step: int
    end: int


class Parent:
    """Starts workers, collects what they say, starts one again behind the case that killed it."""

    def __init__(self, seed: int, count: int, jobs: int) -> None:
        self.seed, self.count, self.jobs = seed, count, max(1, jobs)
        self.kinds: dict[str, int] = {}
        self.done: dict[int, int] = {}
        self.peak = 0
        self.started = time.monotonic()

    def run(self) -> int:
        print(f"fuzz: seed {self.seed}, {self.count} cases, {self.jobs} jobs", flush=True)
        SAVED.mkdir(parents=True, exist_ok=True)
        import selectors

        chooser = selectors.DefaultSelector()
        running = {}
        for job in range(self.jobs):
            child = Child(self.seed, job, Span(job, self.jobs, self.count))
            running[job] = child
            chooser.register(child.process.stdout, selectors.EVENT_READ, job)
        shown = 0.0
        while running:
            for key, _ in chooser.select(timeout=1):
                child = running[key.data]
                line = key.fileobj.readline()
                if line:
                    self.heard(key.data, child, json.loads(line))
                    continue
                chooser.unregister(key.fileobj)
                del running[key.data]
                status = child.process.wait()
                if child.finished:
                    continue
                rest = self.died(child, f"the process ended with status {status}: {child.last_words()}")
                if rest is not None:
                    running[key.data] = Child(self.seed, key.data, rest, child.done_before + child.done)
                    chooser.register(running[key.data].process.stdout, selectors.EVENT_READ, key.data)
            for child in running.values():
                child.kill_if_silent()
            if time.monotonic() - shown > 10:
                shown = time.monotonic()
                self.show()
        self.show()
        for kind, count in sorted(self.kinds.items(), key=lambda item: -item[1]):
            print(f"  {count} × {kind}")
        print(f"fuzz: seed {self.seed}: {'no failures' if not self.kinds else f'failures saved in {SAVED}'}", flush=True)
        return int(bool(self.kinds))

    def show(self) -> None:
        done, seconds = sum(self.done.values()), time.monotonic() - self.started
        failed = sum(self.kinds.values())
        print(f"fuzz: {done} of {self.count} cases, {done / seconds:.0f}/s, {failed} failed, peak {self.peak} MiB", flush=True)

    def heard(self, job: int, child: Child, words: dict[str, object]) -> None:
        if "done" in words:
            child.done = int(words["done"])
            self.peak = max(self.peak, int(words["peak_mib"]))
        elif "finished" in words:
            child.finished = True
            child.done = len(range(child.span.first, child.span.end, child.span.step))
        else:
            self.failed(int(words["number"]), str(words["kind"]), str(words["what"]))
        self.done[job] = child.done_before + child.done

    def died(self, child: Child, how: str) -> Span | None:
        """Save the case that killed a worker → what it has left to do."""
        number = child.current()
        if number < 0:
            self.failed(-1, "the worker could not begin", how)
            return None
        self.failed(number, "crash" if not child.killed else "hang", how)
        child.done = (number - child.span.first) // child.span.step + 1
        first = number + child.span.step
        return child.span._replace(first=first) if first < child.span.end else None

    def failed(self, number: int, kind: str, what: str) -> None:
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if self.kinds[kind] > _KEPT or number < 0:
            if number < 0:
                print(f"FAILED {kind}: {what}", flush=True)
            return
        print(f"FAILED case {number}: {kind}: {what}\n  again: {save(self.seed, number, what)}", flush=True)


class Child:
    """A worker process."""

    def __init__(self, seed: int, job: int, span: Span, done_before: int = 0) -> None:
        self.span, self.done_before, self.done = span, done_before, 0
        self.finished = self.killed = False
        self._progress = SAVED / f"progress-{os.getpid()}-{job}"
        self._progress.write_bytes(b"\xff" * 8)
        self._errors = SAVED / f"stderr-{os.getpid()}-{job}"
        self._seen, self._seen_at = -1, time.monotonic()
        words = [sys.executable, "-m", "tests.fuzz", "--seed", str(seed), "--worker", *map(str, span)]
        environment = {**os.environ, "KAFKALOG_FUZZ_PROGRESS": str(self._progress)}
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors)

    def current(self) -> int:
        """The case that it is at; −1: none yet."""
        return int.from_bytes(self._progress.read_bytes()[:8], "big", signed=True)

    def kill_if_silent(self) -> None:
        number, now = self.current(), time.monotonic()
        if number != self._seen:
            self._seen, self._seen_at = number, now
        elif now - self._seen_at > SILENCE:
            self.killed = True
            self.process.kill()

    def last_words(self) -> str:
        lines = self._errors.read_text(errors="replace").strip().splitlines()
        telling = [line for line in lines if "runtime error" in line or "SUMMARY" in line or "Error" in line]
        return " · ".join((telling or lines[-3:])[:4])


def save(seed: int, number: int, what: str) -> str:
    """Keep the files of a case in build/fuzz → the command that runs it again."""
    from tests.fuzz.cases import make_case

    command = f"python -m tests.fuzz --seed {seed} --only {number}"
    directory = SAVED / f"{seed}-{number}"
    case = make_case(seed, number)
    for path, data in case.files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    (directory / "case.txt").write_text(f"{command}\n{what}\nmutant {case.path}\ndumped {case.dump}\n{case[4:]}\n")
    return command


def again(seed: int, number: int) -> int:
    """One case, with its traceback."""
    from tests.fuzz.cases import make_case
    from tests.fuzz.frames import check_mutant, make_mutant
    from tests.fuzz.laws import check
    from tests.fuzz.requests import check_session, make_session

    case = make_case(seed, number)
    print(f"mutant {case.path}, dumped {case.dump}, {case[4:]}")
    result = check(case)
    print(f"sound: {len(result.out)} bytes of text, {len(result.findings)} findings")
    mutant = make_mutant(seed, number)
    print(f"frame {mutant.frame.hex()}, request of the response: {mutant.header}")
    print("decoded" if check_mutant(mutant) else "refused")
    session = make_session(seed, number)
    print("\n".join(["requests", *(frame.hex() for frame in session.frames)]))
    print(dict(check_session(session)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
