"""What stands in packaging/ fits the program: options, metrics, scripts. `make dist-test` runs the packages themselves."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys

import click
import pytest

from kafkalog_cli.commands.check import command as check
from tests.support.console import ROOT
from tests.support.corpus import cluster_corpus
from tests.support.preflight import materialize
from tests.support.run import kafkalog

PACKAGING = ROOT / "packaging"
METRIC = re.compile(r"\bkafkalog_[a-z_]+")
COMMANDS = ("systemd/kafkalog-check.service", "ci/github.yml", "ci/gitlab.yml", "../docs/packaging.md")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Metrics as `check` writes them."""
    home = tmp_path_factory.mktemp("metrics")
    node = materialize(cluster_corpus() / "preflight", "control", home / "n1")
    path = home / "kafkalog.prom"
    assert kafkalog("check", "--metrics-textfile", str(path), str(node)).status == 0
    return path.read_text()


@pytest.mark.parametrize("name", ["monitoring/alerts.yml", "monitoring/dashboard.json"])
def test_rules_and_panels_use_metrics_that_check_writes(name, written):
    asked = set(METRIC.findall((PACKAGING / name).read_text()))
    assert asked
    assert asked <= {line.split()[2] for line in written.splitlines() if line.startswith("# TYPE")}


def test_rules_and_panels_use_labels_that_check_writes(written):
    texts = [(PACKAGING / "monitoring/alerts.yml").read_text()]
    texts += [target["expr"] for panel in json.loads((PACKAGING / "monitoring/dashboard.json").read_text())["panels"] for target in panel["targets"]]
    asked = {label for text in texts for inside in re.findall(r"kafkalog_[a-z_]+\{([^}]*)\}", text) for label in re.findall(r"(\w+)=", inside)}
    assert asked == {"cluster", "severity"}
    assert asked <= set(re.findall(r'(\w+)="', written))


def lines_with_check(name):
    lines = [line.strip() for line in (PACKAGING / name).read_text().splitlines()]
    found = [line[line.index("kafkalog check") :] for line in lines if "kafkalog check " in line and "`kafkalog check" not in line]
    return [re.split(r" [>|]", line)[0].split()[2:] for line in found]


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_have_options_that_exist(name):
    lines = lines_with_check(name)
    assert lines
    for words in lines:
        plain = [word.replace("${STATE_DIRECTORY}", "/state") for word in words if word != "$KAFKALOG_CHECK"]
        with click.Context(check) as context:
            check.parse_args(context, plain)


def schema_errors(path, schema):
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", path]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize(("name", "schema"), [
    ("../.github/workflows/ci.yml", "github-workflows"), ("ci/github.yml", "github-workflows"), ("ci/gitlab.yml", "gitlab-ci"),
])  # fmt: skip
def test_jobs_have_fields_that_exist(name, schema, tmp_path):
    """`make dist-test` asks actionlint, too."""
    assert schema_errors(PACKAGING / name, schema) == ""
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(re.sub(r"\b(steps|script):", r"\1x:", (PACKAGING / name).read_text()))
    assert "validation errors" in schema_errors(wrong, schema)


@pytest.mark.parametrize("name", ["postinst", "prerm"])
def test_scripts_of_the_package_are_shell(name):
    subprocess.run(["sh", "-n", PACKAGING / "debian" / name], check=True)


@pytest.mark.parametrize(("licence", "is_allowed"), [
    ("MIT", True), ("Apache Software License; BSD License", True), ("MIT OR GPL-3.0-only", True), ("(MIT AND Zlib) AND CC0-1.0", True),
    ("GNU Lesser General Public License v3 or later (LGPLv3+)", True), ("GPL-3.0-or-later", False), ("MIT AND GPL-2.0", False),
    ("BSD License; GNU General Public License v3 (GPLv3)", False), ("UNKNOWN", False), ("", False), ("Proprietary", False),
])  # fmt: skip
def test_a_licence_that_is_not_allowed_is_found(licence, is_allowed):
    found = json.dumps([{"Name": "x", "Version": "1", "License": licence}])
    done = subprocess.run([sys.executable, PACKAGING / "licences.py"], input=found, capture_output=True, text=True, check=False)
    assert (done.returncode == 0, "x 1: " in done.stdout) == (is_allowed, not is_allowed)


def audited(text):
    done = subprocess.run([sys.executable, PACKAGING / "vulnerabilities.py"], input=text, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


SOUND = {"name": "a", "version": "1", "vulns": []}
VULNERABLE = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}
UNKNOWN = {"name": "c", "skip_reason": "c was not found"}


@pytest.mark.parametrize(("packages", "status", "printed"), [
    ([SOUND], 0, ["1 of 1 packages were looked up, 0 known"]),
    ([SOUND, VULNERABLE], 1, ["b 2: PYSEC-1, fixed in 3", "2 of 2 packages were looked up, 1 known"]),
    ([SOUND, UNKNOWN, VULNERABLE], 1, ["b 2: PYSEC-1", "NOT looked up: c; the first reason: c was not found", "2 of 3 packages"]),
    ([UNKNOWN], 1, ["0 of 1 packages", "nothing is known"]), ([], 1, ["0 of 0 packages"]),
])  # fmt: skip
def test_the_audit_says_what_it_found_and_what_it_could_not_look_up(packages, status, printed):
    code, text = audited(json.dumps({"dependencies": packages}))
    assert code == status
    assert [one for one in printed if one not in text] == []


def test_an_audit_that_failed_is_not_taken_for_a_good_one():
    assert audited("") == (1, "vulnerabilities: pip-audit failed, see build/audit.log; nothing was looked up\n")


@pytest.mark.parametrize(("mode", "is_used"), [(0o700, True), (0o755, True), (0o775, False), (0o777, False)])
def test_the_single_file_unpacks_in_a_directory_that_nobody_else_can_write(mode, is_used, tmp_path):
    own_directory = runpy.run_path(str(PACKAGING / "pyz_main.py"), run_name="tested")["own_directory"]
    path = tmp_path / "cache"
    path.mkdir()
    path.chmod(mode)
    assert own_directory(str(path)) is is_used
    link = tmp_path / "link"
    link.symlink_to(path)
    assert not own_directory(str(link))
    assert own_directory(str(tmp_path / "a/b"))
    assert os.stat(tmp_path / "a/b").st_mode & 0o077 == 0
