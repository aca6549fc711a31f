"""What kafkalog append does to a log of Kafka 0.7: messages without keys, times and producers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from engine.errors import UsageError
from engine.files import now_ms
from engine.formats import CODEC_NAMES
from engine.log.append.intake_07 import LineIntake07, SetIntake07
from engine.record.kafka07 import CODEC_NAMES_07
from engine.record.lines import JsonLines, TextLines
from kafkalog_cli.appending import Session

if TYPE_CHECKING:
    from engine.log.append.intake import Intake
    from engine.log.kafka07.log import Log07
    from engine.log.report import Report

# what a log of 0.7 has nothing for: option → (value by name, what it is where nobody says)
_UNKNOWN = {
    "--follower": ("follower", False), "--producer-id": ("producer_id", -1), "--producer-epoch": ("producer_epoch", None),
    "--sequence": ("sequence", None), "--transaction": ("transaction", None), "--leader-epoch": ("leader_epoch", None),
    "--timestamp": ("timestamp", None), "--compression-level": ("level", None),
}  # fmt: skip


class Session07(Session):
    """One run over the input, with a log of 0.7 open. Between two of its offsets lies a byte."""

    _unit = "bytes"

    def __init__(self, log: Log07, report: Report, values: dict[str, Any], descriptor: int) -> None:
        _check(log.directory, values)
        self._log_07, self._report_07 = log, report
        self._json = JsonLines(ignore_unknown=values["ignore_unknown"])
        self._begin(values, descriptor, log.directory)
        self._intake = self._intake_07()

    def _intake_07(self) -> Intake:
        values = self._values
        if values["form_in"] == "raw":
            return SetIntake07(self._log_07, self._now, values["batch_size"])
        is_text = values["form_in"] == "text"
        reader = TextLines(os.fsencode(values["separator"]), os.fsencode(values["null"])) if is_text else self._json
        return LineIntake07(
            self._log_07, reader, self._now, magic=1 if values["magic"] is None else int(values["magic"]),
            codec=CODEC_NAMES.index(values["compression"]), batch_size=values["batch_size"],
        )  # fmt: skip

    def _now(self) -> int:
        return now_ms() if self._values["now"] is None else int(self._values["now"])

    def _set_clock(self) -> None:
        """The log is told the time with each set."""

    def _report(self) -> Report:
        return self._report_07

    def _sync(self) -> None:
        self._log_07.flush(self._now())

    def _synced(self) -> int:
        return self._log_07.log_end_offset


def _check(directory: str, values: dict[str, Any]) -> None:
    """Raise UsageError for what a log of 0.7 has nothing for."""
    given = [option for option, (name, default) in _UNKNOWN.items() if values[name] != default]
    if given:
        raise UsageError(f"{directory}: a log of Kafka 0.7, which has nothing for {', '.join(given)}", path=directory)
    if CODEC_NAMES.index(values["compression"]) >= len(CODEC_NAMES_07):
        what = f"{directory}: a log of Kafka 0.7, which knows none, gzip and snappy, not {values['compression']}"
        raise UsageError(what, path=directory)
