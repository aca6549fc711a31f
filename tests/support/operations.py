"""An operation as tests write one: a name and a function."""

from engine.log.operations.operation import Operation


def doing(name, work=lambda _log: None, **values):
    """An operation called `name` that does `work` on each open log; `values` go over those of the class."""
    return type("Doing", (Operation,), {"name": name, "work": lambda _self, log: work(log), **values})()
