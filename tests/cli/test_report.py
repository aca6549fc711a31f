"""`kafkalog report` writes one page with the verdict of `check`, which runs nothing, loads nothing and replaces no other file."""

from __future__ import annotations

import json
import re
import shutil
import sys
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from jsonschema import Draft202012Validator

from engine.errors import UnwritableFile
from engine.files import Files
from kafkalog_cli.page.charts import time_ticks, value_ticks
from kafkalog_cli.page.redaction import Redaction
from tests.support.json_output import SCHEMA, all_objects
from tests.support.permissions import without_permission
from tests.support.run import kafkalog
from tests.support.users import as_root, give, public_directory

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "<img src=x onerror=alert(1)>"


class Page(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.markup = page.read_text()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.pieces: list[str] = []
        self._inside: list[str] = []
        self.feed(self.markup)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._inside.append(tag)

    def handle_endtag(self, tag):
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data):
        if "style" not in self._inside:
            self.pieces.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.pieces).split())


def report(*words: object, status: int = 0, cwd: Path | None = None) -> Page:
    """Write a page with `-o page.html` in the directory `cwd`."""
    assert cwd is not None
    done = kafkalog("report", "-o", "page.html", *map(str, words), cwd=cwd)
    assert done.status == status, done
    return Page(cwd / "page.html")


@pytest.fixture
def forked(own_cluster_corpus) -> Path:
    return own_cluster_corpus / "forks/2-forked-twice"


@pytest.fixture
def damaged(own_cluster_corpus, tmp_path) -> Path:
    """A stopped node with a damaged log, and a topic whose name is markup."""
    shutil.copytree(own_cluster_corpus / "ops/1-stopped/n1", tmp_path / "n1")
    log = tmp_path / "n1/d1/short-0" / f"{40:020d}.log"
    log.chmod(0o644)
    data = bytearray(log.read_bytes())
    data[8:12] = b"\0\0\0\1"
    log.write_bytes(data)
    shutil.copytree(tmp_path / "n1/d1/short-0", tmp_path / f"n1/d1/{HOSTILE}-0")
    return tmp_path / "n1"


def test_the_page_begins_with_the_verdict_and_has_every_section(forked, tmp_path):
    page = report(forked, cwd=tmp_path)
    text = page.text
    assert text.index("STARTS") < text.index("A start would") < text.index("partitions") < text.rindex("Findings")
    headings = [attributes["id"] for tag, attributes in page.tags if tag == "h2"]
    assert headings == ["findings", "rates", "space", "segments", "epochs", "partitions", "basis"]
    assert "forked-0 on node 1" in text
    assert "Of several replicas of a partition only the longest one counts" in text


def test_the_epochs_are_those_of_the_forks(forked, tmp_path):
    """n1 0@0 3@18 7@38 and n2 0@0 5@18, as the README of the corpus has them."""
    titles = report(forked / "n1", forked / "n2", "--topic", "forked", cwd=tmp_path).markup
    found = re.findall(r"<title>epoch (\d+): offsets (\d+) to (\d+)", titles)
    assert found == [("0", "0", "17"), ("3", "18", "37"), ("7", "38", "41"), ("0", "0", "17"), ("5", "18", "20")]


def test_replicas_are_compared(forked, tmp_path):
    """n1 and n2 fork at offset 18, as diff.json of the corpus has it: 24 records only on n1, 3 only on n2."""
    page = report(forked / "n1", "--compare", forked / "n2", "--topic", "forked", "--redact", cwd=tmp_path, status=4)
    assert "Pairs of replicas: 1 forked." in page.text
    rows = re.findall(r"topic-\d+-0 (side \d) forked (\d+) (\d+) (\d+)", page.text)
    assert rows == [("side 1", "18", "42", "24"), ("side 2", "18", "21", "3")]
    assert not re.search(r"\bn[12]\b", page.text)


def test_a_broker_that_would_not_start(own_cluster_corpus, tmp_path):
    shutil.copytree(own_cluster_corpus / "preflight/base/n1", tmp_path / "n1")
    shutil.copytree(tmp_path / "n1/d1/orders-1", tmp_path / "n1/d0/orders-1")
    text = report("n1", cwd=tmp_path, status=4).text
    assert "WOULD NOT START" in text
    assert "Duplicate log directories for orders-1 are found in both" in text


def test_nothing_runs_and_nothing_is_loaded(damaged, tmp_path):
    page = report(damaged, "--title", f"</title><script>alert(2)</script>{HOSTILE}", cwd=tmp_path, status=4)
    assert not {"script", "img", "iframe", "link", "object", "form", "base", "image", "use"} & {tag for tag, _ in page.tags}
    names = {name for _, attributes in page.tags for name in attributes}
    assert not {name for name in names if name.startswith("on") or name in ("style", "src", "srcset", "action")}
    assert {value for _, attributes in page.tags if (value := attributes.get("href"))} == {
        f"#{attributes['id']}" for tag, attributes in page.tags if tag == "h2"
    }
    [policy] = [attributes["content"] for _, attributes in page.tags if attributes.get("http-equiv") == "Content-Security-Policy"]
    [style] = re.findall(r"<style>(.*?)</style>", page.markup, re.DOTALL)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "url(" not in style
    assert "@import" not in style
    assert f"{HOSTILE}-0" in page.text
    assert f"</title><script>alert(2)</script>{HOSTILE}" in page.text


def test_damage_is_a_finding_and_in_the_map(damaged, tmp_path):
    page = report(damaged, "--topic", "short", cwd=tmp_path, status=4)
    assert "error batch-size-invalid" in page.text
    assert "offsets 40 to 59: damaged, or removed by a start" in page.markup
    assert "kafkalog recover" in page.text
    assert "Not read: records, and the checksums of all other batches" in page.text


def test_missing_offsets_have_times(damaged, tmp_path):
    for path in (damaged / "d1/short-0").glob(f"{40:020d}.*"):
        path.unlink()
    page = report(damaged, "--topic", "short", cwd=tmp_path, status=4)
    assert re.search(r"short-0 40 59 20 \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", page.text)


def test_retention(own_cluster_corpus, tmp_path):
    node, topic = own_cluster_corpus / "ops/1-stopped/n1", ("--topic", "short")
    old = report(node, *topic, "--config", "retention.ms=1000", cwd=tmp_path)
    assert old.markup.count('class="old"') == 3 + 1  # segments, and the meaning of the colour
    new = report(node, *topic, "--config", "retention.ms=3153600000000", cwd=tmp_path)
    assert new.markup.count('class="old"') == 1


def test_a_range_of_times(forked, tmp_path):
    every = report(forked / "n1", "--topic", "forked", cwd=tmp_path)
    times = sorted(set(re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", every.text)))
    part = report(forked / "n1", "--topic", "forked", "--time", f":{times[-1].replace(' ', 'T')}Z", cwd=tmp_path)
    assert "records with timestamps outside of the range" in part.text
    assert "outside of the range" not in every.text


def test_no_name_is_in_a_redacted_page(own_cluster_corpus, tmp_path):
    shutil.copytree(own_cluster_corpus / "ops/1-stopped/n1", tmp_path / "secret/n1")
    (tmp_path / "secret/n1/d1/short-0/private.txt").write_text("")
    (tmp_path / "secret/n1/d0/attic").mkdir()
    (tmp_path / "secret/n1/d0/unclean-0").mkdir()  # a finding: no log
    plain = report("secret/n1", cwd=tmp_path, status=4)
    page = report("secret/n1", "--redact", cwd=tmp_path, status=4)
    topics = {path.name.rpartition("-")[0] for path in (tmp_path / "secret/n1").glob("d?/*-*") if path.is_dir()}
    words = {topic for topic in topics if not topic.startswith("__")} | {"secret", "private.txt", "attic", str(tmp_path)}
    for log_dir in ("d0", "d1"):
        text = (tmp_path / "secret/n1" / log_dir / "meta.properties").read_text()
        words |= set(re.findall(r"(?:cluster|directory)\.id=(\S+)", text))
    words |= {path.read_text().split("topic_id: ")[1].strip() for path in (tmp_path / "secret").rglob("partition.metadata")}
    found = {word for word in words if re.search(rf"(?<![\w]){re.escape(word)}(?![\w])", page.text)}
    assert found - {"simple", "open", "moving"} == set(), found  # words of our own sentences
    assert "topic-1" in page.text
    assert len([tag for tag, _ in page.tags]) == len([tag for tag, _ in plain.tags])


def test_a_redaction_replaces_whole_names_only():
    shown = Redaction(["orders", "orders-eu", "a.b"], [("/var/lib/k/d0", "k/d0")], ["WhlMPuKvPrfddOCBOrsVHg"])
    for text, wanted in {
        "/var/lib/k/d0/orders-0/00000000000000000000.log: torn": "dir-1/topic-1-0/00000000000000000000.log: torn",
        "k/d0/orders-eu-12 and reorders, a.b.": "dir-1/topic-2-12 and reorders, topic-3.",
        "node 1 of cluster WhlMPuKvPrfddOCBOrsVHg": "node 1 of cluster id-1",
        "k/d0/private/x.txt, /etc/passwd": "dir-1/…/…, …",
        "k/d0/orders-0.14c219930eae400dab7888405e961214-delete": "dir-1/topic-1-0.14c219930eae400dab7888405e961214-delete",
        "k/d0/__consumer_offsets-7": "dir-1/__consumer_offsets-7",
    }.items():
        assert shown(text) == wanted


@pytest.mark.parametrize("kind", ["file", "directory", "log", "other page"])
def test_no_other_file_is_replaced(forked, tmp_path, kind):
    target = tmp_path / "page.html"
    if kind == "directory":
        target.mkdir()
    elif kind == "log":
        shutil.copy(next((forked / "n1").rglob("*.log")), target)
    else:
        target.write_text("<!DOCTYPE html>\n<html></html>" if kind == "other page" else "")
    before = None if kind == "directory" else target.read_bytes()
    done = kafkalog("report", "-o", str(target), str(forked / "n1"))
    assert done.status == 2
    assert "exists, and is not a page of kafkalog report" in done.err
    assert kind == "directory" or target.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_no_other_temporary_file_is_replaced(forked, tmp_path):
    (tmp_path / "page.html.tmp").write_text("mine")
    done = kafkalog("report", "-o", "page.html", str(forked / "n1"), cwd=tmp_path)
    assert (done.status, [path.name for path in tmp_path.iterdir()]) == (2, ["page.html.tmp"])
    assert (tmp_path / "page.html.tmp").read_text() == "mine"


def test_no_file_is_named_as_stdout(forked, tmp_path):
    done = kafkalog("report", "-o", "-", str(forked / "n1"), cwd=tmp_path)
    assert (done.status, "name it: -o report.html" in done.err, list(tmp_path.iterdir())) == (2, True, [])


def test_nothing_remains_of_a_page_that_could_not_be_written(forked, tmp_path, monkeypatch):
    def fail(*_arguments, **_more):
        raise UnwritableFile("No space left on device")

    monkeypatch.setattr(Files, "rename", fail)
    done = kafkalog("report", "-o", "page.html", str(forked / "n1"), cwd=tmp_path)
    assert (done.status, "No space left" in done.err, list(tmp_path.iterdir())) == (8, True, [])


@as_root
@pytest.mark.parametrize("words", [("report", "-o", "link/page.html"), ("export", "--as", "jsonl", "--to", "link/"), (
    "export", "--as", "jsonl", "--topic", "forked", "--to", "link/one.jsonl"), ("diff", "--export", "link/saved")], ids=" ".join)  # fmt: skip
def test_root_writes_through_no_link_of_another_user(forked, words):
    with public_directory() as top:
        (top / "of-root").mkdir()
        (top / "theirs").mkdir()
        (top / "theirs/link").symlink_to(top / "of-root")
        give(top / "theirs")
        sides = [str(forked / name) for name in ("n1", "n2")]
        done = kafkalog(*words, *(sides if words[0] == "diff" else sides[:1]), cwd=top / "theirs")
        assert (done.status, "owner-not-allowed" in done.err) == (8, True), done.err
        assert list((top / "of-root").iterdir()) == []
        (top / "theirs/link").unlink()
        (top / "theirs/link").mkdir()
        assert kafkalog(*words, *(sides if words[0] == "diff" else sides[:1]), cwd=top / "theirs").status in (0, 4)
        assert list((top / "theirs/link").iterdir()) != []


def test_a_page_is_replaced(forked, tmp_path):
    first = report(forked / "n1", cwd=tmp_path)
    second = report(forked / "n2", cwd=tmp_path)
    assert first.markup != second.markup


@pytest.mark.parametrize("place", ["", "short-0", "short-0/deep", "link"])
def test_no_page_is_written_into_a_log_dir(damaged, tmp_path, place):
    (damaged / "d1/short-0/deep").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (damaged / "d1/link").symlink_to(damaged / "d1/short-0") if place == "link" else None
    before = sorted(damaged.rglob("*"))
    done = kafkalog("report", "-o", str(damaged / "d1" / place / "page.html"), str(damaged))
    assert done.status == 2
    assert "which holds logs" in done.err
    assert sorted(damaged.rglob("*")) == before


def test_no_page_is_written_among_copied_partitions(own_cluster_corpus, tmp_path):
    shutil.copytree(own_cluster_corpus / "ops/1-stopped/n1/d1/short-0", tmp_path / "short-0")
    done = kafkalog("report", "-o", "page.html", ".", cwd=tmp_path)
    assert (done.status, [path.name for path in tmp_path.iterdir()]) == (2, ["short-0"])


def test_without_its_package_the_command_says_what_to_install(forked, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pygal", None)
    done = kafkalog("report", "-o", "page.html", str(forked), cwd=tmp_path)
    assert done.status == 2
    assert "pip install 'kafkalog[report]'" in done.err
    assert list(tmp_path.iterdir()) == []


def test_json(damaged, tmp_path):
    done = kafkalog("report", "-o", "page.html", "--format", "jsonl", str(damaged), cwd=tmp_path)
    [page] = [one for one in all_objects(done.out) if one["type"] == "page"]
    Draft202012Validator(SCHEMA).validate({"type": "object", **page})
    assert (page["bytes"], page["verdicts"]) == ((tmp_path / "page.html").stat().st_size, ["starts"])
    checked = kafkalog("check", "--format", "jsonl", str(damaged))
    counts = json.loads(checked.out.splitlines()[-1])["findings"]
    assert [page["errors"], page["warnings"], page["infos"]] == [counts["error"], counts["warning"], counts["info"]]
    assert done.status == checked.status == 4


def test_paths_without_logs(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    for path in ("empty", "file", "missing"):
        done = kafkalog("report", "-o", "page.html", path, cwd=tmp_path)
        assert done.status in (2, 8)
        assert not (tmp_path / "page.html").exists()


def test_an_unreadable_partition_is_on_the_page(damaged, tmp_path):
    with without_permission(damaged / "d1/short-0"):
        done = kafkalog("report", "-o", "page.html", str(damaged), cwd=tmp_path)
    assert (done.status, done.err.count("d1/short-0: Permission denied")) == (8, 1)
    assert "not read" in Page(tmp_path / "page.html").text


@pytest.mark.parametrize(("first", "last", "wanted"), [
    (0, 40_000, ["00:00:00", "00:00:10", "00:00:20", "00:00:30", "00:00:40"]),
    (1705001114581, 1705001245061, ["19:25:30", "19:26:00", "19:26:30", "19:27:00"]),
    (1705001114581, 1705091114581, ["00:00", "06:00", "12:00", "18:00"]),
    (1705000000000, 1705200000000, ["01-12 00:00", "01-12 12:00", "01-13 00:00", "01-13 12:00", "01-14 00:00"]),
    (0, 400 * 86_400_000, ["1970-01-01", "1970-04-02", "1970-07-02", "1970-10-01", "1970-12-31"]),
])  # fmt: skip
def test_ticks_of_times_are_round(first, last, wanted):
    ticks = time_ticks(first, last)
    assert list(ticks.values()) == wanted
    assert all(first <= tick <= last for tick in ticks)


@pytest.mark.parametrize(("largest", "wanted"), [
    (1, [0, 1]), (7, [0, 2, 4, 6]), (20, [0, 5, 10, 15, 20]), (99, [0, 20, 40, 60, 80]), (1234, [0, 500, 1000]), (3 * 10**9, [0, 10**9, 2 * 10**9, 3 * 10**9]),
])  # fmt: skip
def test_ticks_of_values_are_round(largest, wanted):
    assert value_ticks(largest) == wanted
