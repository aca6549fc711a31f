"""The console entry point: what Ctrl-C does is settled before anything is imported that takes time.

It stands alone, since it imports nothing of ours. From its first statement on Ctrl-C shows no traceback. What Python does
before that, some ten milliseconds, is not ours.
"""

import _signal  # type: ignore[import-not-found]  # built in: the module signal takes a millisecond to import

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    try:  # noqa: SIM105  # contextlib takes longer to import than this module
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # until `main` has its own
    except ValueError:
        pass  # a thread imports this: it is nobody's program

import gc
import os
import sys

TYPE_CHECKING = False  # the module typing takes longer to import than this one
if TYPE_CHECKING:
    from types import FrameType

INTERRUPTED = 130  # what a shell makes of a program that SIGINT ended


def main() -> None:
    """Run the program. Ctrl-C ends it with one line and status 130, also while modules are imported."""
    try:
        _speak_utf_8()
        import signal

        gc.set_threshold(50_000)  # modules are no garbage: looking at them again and again is an eighth of a start
        is_heeded = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN  # `kafkalog … &` in a script ignores it
        if is_heeded:
            signal.signal(signal.SIGINT, _interrupt)
        from kafkalog_cli.main import main as run

        try:
            run()
        finally:
            if is_heeded:
                signal.signal(signal.SIGINT, _leave)  # Python clears up, and there is nothing left to give up
    except KeyboardInterrupt:
        _leave()


def _speak_utf_8() -> None:
    """Begin again in Python's UTF-8 mode where the locale would have it read names and write text in another way."""
    if sys.getfilesystemencoding() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONUTF8": "1"})  # noqa: S606  # ourselves


def _interrupt(_signal: int, frame: "FrameType | None") -> None:
    """Give up work in order; but an import, which may lose an exception on its way, is left at once."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _leave()
        frame = frame.f_back
    raise KeyboardInterrupt


def _leave(*_: object) -> None:
    try:
        os.write(2, b"interrupted\n")
    finally:
        os._exit(INTERRUPTED)
