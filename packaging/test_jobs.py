"""What users give to other programs is accepted by those: jobs of GitHub Actions, rules of Prometheus, units of systemd."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from tests.s3.server import install_go_program
from tests.support.console import ROOT
from tests.support.needs import lacking

ACTIONLINT = "v1.7.12"
RULES = ROOT / "packaging/monitoring/alerts.yml"
HOST = {"instance": "kafka-1:9100", "job": "node"}
NODE = {"cluster": "c", "node": "1", **HOST}
DAY = 24 * 60  # minutes


def test_github_accepts_the_jobs():
    if shutil.which("go") is None:
        lacking("needs go")
    home = ROOT / f"build/actionlint-{ACTIONLINT}"
    if not (home / "actionlint").exists():
        install_go_program(f"github.com/rhysd/actionlint/cmd/actionlint@{ACTIONLINT}", home)
    jobs = [ROOT / "packaging/ci/github.yml", ROOT / ".github/workflows/ci.yml"]
    done = subprocess.run([home / "actionlint", "-no-color", "-shellcheck=", "-pyflakes=", *jobs], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.fixture(scope="module")
def promtool(request, tmp_path_factory):
    """Prometheus' own program that checks and runs rules."""
    found = shutil.which("promtool")
    if found is not None:
        return found
    home = tmp_path_factory.mktemp("prometheus")
    subprocess.run([*request.getfixturevalue("apt_get"), "download", "prometheus"], cwd=home, check=True)
    (package,) = home.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", package, home], check=True)
    return str(home / "usr/bin/promtool")


def series(name: str, labels: dict[str, str], values: str) -> dict[str, str]:
    inside = ",".join(f'{label}="{value}"' for label, value in labels.items())
    return {"series": f"{name}{{{inside}}}", "values": values}


def alert(labels: dict[str, str], severity: str, summary: str, description: str | None = None) -> dict[str, dict[str, str]]:
    texts = {"summary": summary} | ({"description": description} if description else {})
    return {"exp_labels": labels | {"severity": severity}, "exp_annotations": texts}


FULL = "On kafka-1:9100, `kafkalog check --level full` names each file, and the command to run next."
ALERTS = {
    "KafkaBrokerWouldNotStart": alert(
        NODE, "critical", "Node 1 of cluster c would not start with all its log directories",
        "Do not restart this broker. On kafka-1:9100, run: kafkalog check --level start",
    ),
    "KafkaLogDamaged": alert(NODE, "critical", "Errors in the logs of node 1 of cluster c: 2", FULL),
    "KafkaLogNotReadable": alert(NODE, "critical", "Partitions of node 1 of cluster c that could not be read: 1"),
    "KafkaLogCheckFailed": alert(
        HOST, "critical", "The check of the log directories on kafka-1:9100 ended with an error", "systemctl status kafkalog-check.service",
    ),
    "KafkaLogWarnings": alert(NODE, "warning", "Warnings in the logs of node 1 of cluster c: 3"),
    "KafkaLogCheckIsLate": alert(
        HOST, "warning", "The log directories on kafka-1:9100 were not checked for two days",
        "systemctl status kafkalog-check.timer kafkalog-check.service",
    ),
}  # fmt: skip
METRICS = [
    ("kafkalog_check_starts", NODE), ("kafkalog_check_errors", NODE), ("kafkalog_check_findings", {**NODE, "severity": "error"}),
    ("kafkalog_check_findings", {**NODE, "severity": "warning"}), ("kafkalog_last_run_timestamp_seconds", HOST),
    ("kafkalog_check_failed", HOST),
]  # fmt: skip


def constant(value):
    return f"{value}+0x{3 * DAY}"


def measured(*values):
    """The series of METRICS, with these values."""
    return [series(name, labels, value) for (name, labels), value in zip(METRICS, values, strict=True)]


DAMAGED = measured(*map(constant, (0, 1, 2, 3, 0, 1)))
SOUND = measured(*map(constant, (1, 0, 0, 0)), f"0+60x{3 * DAY}", constant(0))
AT_ONCE = {"KafkaBrokerWouldNotStart", "KafkaLogDamaged", "KafkaLogNotReadable", "KafkaLogCheckFailed"}


@pytest.mark.parametrize(("inputs", "minute", "fire"), [
    (DAMAGED, 1, AT_ONCE), (DAMAGED, 2 * DAY + 10, set(ALERTS)), (SOUND, 1, set()), (SOUND, 2 * DAY + 10, set()),
])  # fmt: skip
def test_prometheus_fires_the_alerts(promtool, tmp_path, inputs, minute, fire):
    asked = [{"eval_time": f"{minute}m", "alertname": name, "exp_alerts": [expected] if name in fire else []} for name, expected in ALERTS.items()]
    tests = [{"interval": "1m", "input_series": inputs, "alert_rule_test": asked}]
    (tmp_path / "tests.json").write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run([promtool, "test", "rules", tmp_path / "tests.json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_rule_is_tested():
    names = [line.split()[-1] for line in RULES.read_text().splitlines() if "- alert: " in line]
    assert names == list(ALERTS)


def test_systemd_accepts_the_units(tmp_path):
    program = shutil.which("systemd-analyze")
    if program is None:
        lacking("needs systemd-analyze")
    for path in (ROOT / "packaging/systemd").iterdir():
        (tmp_path / path.name).write_text(path.read_text().replace("/usr/bin/kafkalog", "/bin/true"))
    units = sorted(tmp_path.iterdir())
    assert [path.suffix for path in units] == [".service", ".timer"]
    done = subprocess.run([program, "verify", "--man=no", *units], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
