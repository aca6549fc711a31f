"""File names in advice: one argument of a shell, whatever is in them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from engine.errors import argument
from engine.findings import KINDS, Finding, Where

NAMES = ["data/t-0", "my data/t 0", "it's", '"', "$HOME `x` !y", "a\nb", "\x1b[31m", "back\\slash\n", "é", "\udcff x", "\u202eabc", "*?[a]", "x;y", "~"]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize("name", NAMES)
def test_shells_hand_over_the_name(shell, name):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    told = argument(name)
    assert told.isprintable()
    done = subprocess.run([shell, "-c", f"printf %s {told}"], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
    assert done.stdout == name.encode("utf-8", "surrogateescape")


def test_plain_names_are_left_alone():
    assert argument("/data/d-1/orders-7/00000000000000000042.log") == "/data/d-1/orders-7/00000000000000000042.log"


def test_no_name_is_an_option():
    assert argument("-rf") == "./-rf"
    assert argument("--x y") == "'./--x y'"


def test_findings_name_their_file_in_commands():
    assert Finding("index-corrupt", Where("my data/a.index"), "…").do == "kafkalog verify --rebuild 'my data/a.index'"
    assert Finding("offset-gap", Where("my data/a.index"), "…").do == KINDS["offset-gap"].do


@pytest.mark.parametrize(("file", "directory"), [("my data/t-0/a.index", "'my data/t-0'"), ("a.index", "."), ("/a.index", "/")])
def test_what_is_missing_is_made_anew_by_its_directory(file, directory):
    assert Finding("index-missing", Where(file), "…").do == f"kafkalog verify --rebuild {directory}"


def test_advice_has_no_other_places_to_fill_in():
    assert [code for code, kind in KINDS.items() if "{" in kind.do.replace("{path}", "").replace("{directory}", "")] == []


def test_what_is_called_harmless_leaves_the_exit_status_alone():
    harmless = {code: kind.severity.value for code, kind in KINDS.items() if "harmless" in kind.do + kind.why}
    assert set(harmless.values()) == {"info"}
