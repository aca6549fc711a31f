"""Operations from a name and a function."""

from engine.log.operations.operation import Operation


def doing(name, work=lambda _log: None, **values):
    """Return an operation `name` that does `work` on each open log; `values` override attributes of the class."""
    return type("Doing", (Operation,), {"name": name, "work": lambda _self, log: work(log), **values})()
