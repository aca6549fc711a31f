"""packaging/kubernetes and docs/kubernetes.md: fields that Kubernetes knows, commands that run, and files that stay as they are."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.support.console import ROOT
from tests.support.corpus import cluster_corpus
from tests.support.needs import lacking
from tests.support.preflight import materialize
from tests.support.run import kafkalog

try:
    import kubernetes_validate
    import yaml
except ImportError:
    lacking("needs kubernetes-validate", of_module=True)

FOLDER, PAGE = ROOT / "packaging/kubernetes", ROOT / "docs/kubernetes.md"
DEBUG = "debug-container.yaml"  # a part of a container, the others are whole objects
OBJECTS = sorted(path.name for path in FOLDER.iterdir() if path.name != DEBUG)
VERSIONS = ("1.31", kubernetes_validate.latest_version())
MOUNT, DATA = "/var/lib/kafka", "/var/lib/kafka/data"


def read(name):
    return yaml.safe_load((FOLDER / name).read_text())


def pod_of(name):
    """The specification of the Pod that an object makes."""
    spec = read(name)["spec"]
    return spec.get("jobTemplate", {"spec": spec})["spec"]["template"]["spec"]


def commands():
    """(where, words after `kafkalog`) of every command."""
    found = [(name, container["args"]) for name in OBJECTS for container in pod_of(name)["containers"]]
    text = PAGE.read_text().replace("\\\n", " ")
    return found + [(PAGE.name, shlex.split(line)) for line in re.findall(r"-- kafkalog (.*)$", text, re.MULTILINE)]


def beside_a_broker(part):
    """A Pod with the part of a container, as `kubectl debug` adds it."""
    debugger = {"name": "debugger", "image": "kafkalog", "targetContainerName": "kafka", **part}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "kafka-0"},
        "spec": {"containers": [{"name": "kafka", "image": "kafka"}], "ephemeralContainers": [debugger]},
    }  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", [*OBJECTS, DEBUG])
def test_kubernetes_knows_every_field(name, version):
    whole = beside_a_broker(read(name)) if name == DEBUG else read(name)
    kubernetes_validate.validate(whole, version, strict=True)


@pytest.mark.parametrize(("before", "after"), [("readOnly: true", "readonly: true"), ("weight: 100", "weight: all")])
def test_a_field_that_does_not_exist_would_be_found(before, after):
    text = (FOLDER / "check-job.yaml").read_text()
    assert before in text
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(yaml.safe_load(text.replace(before, after)), VERSIONS[0], strict=True)


def test_every_container_reads_only_and_has_no_rights():
    parts = [(pod_of(name)["securityContext"] | container["securityContext"], container["volumeMounts"])
             for name in OBJECTS for container in pod_of(name)["containers"]]  # fmt: skip
    parts.append((read(DEBUG)["securityContext"], read(DEBUG)["volumeMounts"]))
    for rights, mounts in parts:
        assert (rights["runAsNonRoot"], rights["runAsUser"]) == (True, 1001)
        assert (rights["readOnlyRootFilesystem"], rights["allowPrivilegeEscalation"]) == (True, False)
        assert rights["capabilities"] == {"drop": ["ALL"]}
        assert [one.get("readOnly") for one in mounts if one["mountPath"] == MOUNT] == [True]


@pytest.mark.parametrize("name", OBJECTS)
def test_every_mounted_volume_is_declared_and_every_path_is_mounted(name):
    pod = pod_of(name)
    [container] = pod["containers"]
    places = [one["mountPath"] for one in container["volumeMounts"]]
    assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
    paths = [path for word in container["args"] for path in re.findall(r"/[\w./-]+", word)]
    assert paths
    assert [path for path in paths if not any(path.startswith(f"{place}/") for place in places)] == []


@pytest.mark.parametrize(("where", "words"), commands())
def test_every_command_runs_on_the_log_dir_of_a_broker_and_changes_nothing(where, words, tmp_path):
    node = materialize(cluster_corpus() / "preflight", "control", tmp_path / "kafka")
    for name in ("kafkalog", "node_exporter"):
        (tmp_path / name).mkdir()
    before = {path: path.is_file() and path.read_bytes() for path in node.rglob("*")}
    here = [word.replace(DATA, str(node)).replace("/var/lib", str(tmp_path)) for word in words]
    done = kafkalog(*here)
    assert (done.status, done.err) == (0, ""), where
    assert {path: path.is_file() and path.read_bytes() for path in node.rglob("*")} == before
    written = [one.partition("=")[2] for one in here if one.startswith(("--state=", "--metrics-textfile="))]
    assert [path for path in written if not (tmp_path / path).is_file()] == []


def test_the_page_names_files_that_exist_and_jobs_that_they_make():
    text = PAGE.read_text()
    files = set(re.findall(r"packaging/[\w./-]+\.yaml", text))
    assert files == {f"packaging/kubernetes/{name}" for name in (*OBJECTS, DEBUG)}
    made = {f"{read(name)['kind'].lower()}/{read(name)['metadata']['name']}" for name in OBJECTS}
    assert set(re.findall(r"\b(?:job|cronjob)/[\w-]+", text)) == made
