"""Spark's Python daemon (spark.python.daemon.module), without the traceback of each query that ends early, as `show` does.

The JVM closes the connection then; Spark's own daemon prints that as BrokenPipeError. Errors of a task reach the user as the
error of the query. It stands alone because Spark runs it, with `python -m`.
"""

from __future__ import annotations

import sys
import traceback
from typing import Any

from pyspark import daemon


class _Traceback:
    """The module `traceback`, which prints nothing for a closed connection."""

    def print_exc(self) -> None:
        """Print the current exception, unless the connection was closed."""
        if not isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError):
            traceback.print_exc()

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)


if __name__ == "__main__":
    daemon.traceback = _Traceback()  # type: ignore[attr-defined, assignment]  # it has what the daemon uses
    daemon.manager()
