"""`make demo` shows what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.support.console import ROOT


def test_the_demo_recovers_a_damaged_partition_and_undoes_it():
    environment = {**os.environ, "KAFKALOG_PYTHON": sys.executable, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["sh", str(ROOT / "tests/demo.sh")], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    steps = dict(re.findall(r"^\$ kafkalog (.*)\n((?:(?!\$|#).*\n)*)", done.stdout, re.MULTILINE))
    statuses = [(command.split()[0], int(re.search(r"= exit status (\d+)", shown)[1])) for command, shown in steps.items()]
    assert [status for command, status in statuses if command == "recover"] == [1, 1]
    assert [status for command, status in statuses if command in ("fetch", "restore")] == [0, 0]
    assert steps["recover --dry-run data/u-rolls-0"].count("would remove 00000000000000000263.log") == 1
    assert "offsets 0 to 337 in 4 segments" in steps["recover --salvage --quarantine saved data/u-rolls-0"]
    recovered = steps["verify data/u-rolls-0"]  # the second one
    assert "data/u-rolls-0: offsets missing" in recovered
    assert recovered.count("[") == recovered.count("warning[offset-gap]") == 1
    assert "as before `recover`" in steps["restore saved"]
