"""The console entry point: handles Ctrl-C before slow imports.

It stands alone because it must import nothing else of the project. From its first statement on, Ctrl-C prints no traceback; the
ten milliseconds of Python's own start before it are not covered.
"""

import _signal  # type: ignore[import-not-found]  # built in: the module signal takes a millisecond to import

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    try:  # noqa: SIM105  # contextlib takes longer to import than this module
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # until `main` sets its own
    except ValueError:
        pass  # imported by a thread, so not in a program of its own

import gc
import os
import sys

TYPE_CHECKING = False  # the module typing takes longer to import than this one
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

INTERRUPTED, FAILED = 130, 8  # exit status of a program that SIGINT ended; of a command that failed


def main() -> None:
    """Run the program. Ctrl-C ends it with one line and status 130, even during imports."""
    try:
        _use_utf_8()
        import signal

        gc.set_threshold(50_000)  # modules are not garbage: repeated collection would take an eighth of the start
        is_heeded = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN  # ignored for `kafkalog … &` in a script
        if is_heeded:
            signal.signal(signal.SIGINT, _interrupt)
        try:
            from kafkalog_cli.main import main as run
        except ModuleNotFoundError as error:
            from kafkalog import foreign_engine

            what = foreign_engine(error)
            if what is None:
                raise
            _end(f"error[foreign-engine] {what}\n", FAILED)
        try:
            run()
        finally:
            if is_heeded:
                signal.signal(signal.SIGINT, _leave)  # Python cleans up, and no work is left to interrupt
    except KeyboardInterrupt:
        _leave()


def _use_utf_8() -> None:
    """Start the process again in Python's UTF-8 mode if the locale has another encoding."""
    if sys.getfilesystemencoding() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONUTF8": "1"})  # noqa: S606  # ourselves


def _interrupt(_signal: int, frame: "FrameType | None") -> None:
    """Raise KeyboardInterrupt; during an import, which may swallow an exception, end at once."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _leave()
        frame = frame.f_back
    raise KeyboardInterrupt


def _leave(*_: object) -> "NoReturn":
    _end("interrupted\n", INTERRUPTED)


def _end(line: str, status: int) -> "NoReturn":
    """End the process at once; `line` is printed to stderr, if possible."""
    try:
        os.write(2, line.encode(errors="backslashreplace"))
    finally:
        os._exit(status)
