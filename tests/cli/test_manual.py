"""Man pages and completions: there for every command, as the commands are now, and sound."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from kafkalog_cli.completions import offered_options
from kafkalog_cli.main import ALIASES, COMMANDS, cli
from kafkalog_cli.manual import commands, generated
from tests.support.needs import lacking
from tests.support.run import kafkalog
from tests.support.terminal import all_said

ROOT = Path(__file__).parents[2]
FILES = generated(ROOT)
PAGES = sorted(path for path, text in FILES.items() if path.startswith("man/") and not text.startswith(".so "))


@pytest.mark.parametrize("path", sorted(FILES))
def test_the_committed_page_is_the_one_that_the_command_makes(path):
    assert (ROOT / path).read_text() == FILES[path], "run `make docs`"


def test_no_page_is_left_over():
    there = {f"{path.parent.name}/{path.name}" for folder in ("man", "completions") for path in (ROOT / folder).iterdir()}
    assert there == {path for path in FILES if not path.startswith("docs/")}


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_command_documents_itself(name):
    command = commands()[name]
    assert command.help
    assert command.examples, "no EXAMPLES"
    assert command.exit_status[0] == ("0", "no problem found")
    page = f"man/kafkalog-{name.replace(' ', '-')}.1"
    assert page in FILES
    printed = kafkalog(*name.split(), "--help")
    assert printed.status == 0
    text = printed.out.decode()
    for purpose, line in command.examples:
        assert purpose in text
        assert f"    {line}\n" in text, "an example is wrapped"
        assert line.startswith(f"kafkalog {name} ")
    assert "EXIT STATUS:" in text
    for option in offered_options(command):
        assert option.help, option.name
        assert option.name in FILES["completions/kafkalog.bash"]
        assert f"{option.name}[" in FILES["completions/_kafkalog"] or f"{option.name}=[" in FILES["completions/_kafkalog"]
        assert f"-l {option.name[2:]} " in FILES["completions/kafkalog.fish"]
        assert option.name.replace("-", "\\-") in FILES[page]


@pytest.mark.parametrize("name", sorted(commands()))
def test_sections_name_every_option_once(name):
    command = commands()[name]
    named = [option for section in command.sections for option in section.options]
    there = {option.name for option in offered_options(command)} - {"--help", "--version"}
    assert len(named) == len(set(named))
    assert set(named) == there


@pytest.mark.parametrize("name", sorted(commands()))
def test_the_examples_are_command_lines_that_parse(name):
    import shlex

    for _purpose, line in commands()[name].examples:
        words = shlex.split(line)[1 + len(name.split()) :]
        if "--help" not in words and not isinstance(commands()[name], click.Group):
            with click.Context(cli) as context:
                commands()[name].make_context(name, words, parent=context)


def needs(program):
    if shutil.which(program) is None:
        lacking(f"{program} is not installed")


def _lint(*command):
    needs(command[0])
    environment = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize("path", PAGES)
def test_mandoc_has_no_complaint(path):
    done = _lint("mandoc", "-Tlint", str(ROOT / path))
    assert (done.stdout, done.returncode) == ("", 0)


@pytest.mark.parametrize("path", PAGES)
def test_man_has_no_complaint(path):
    done = _lint("groff", "-man", "-ww", "-Tutf8", "-z", str(ROOT / path))
    assert (done.stderr, done.returncode) == ("", 0)


SHELLS = {"completions/kafkalog.bash": ("bash", "-n"), "completions/_kafkalog": ("zsh", "-n"),
          "completions/kafkalog.fish": ("fish", "--no-execute")}  # fmt: skip


@pytest.mark.parametrize("path", sorted(SHELLS))
def test_the_shell_takes_its_script(path):
    done = _lint(*SHELLS[path], str(ROOT / path))
    assert (done.stderr, done.returncode) == ("", 0)


TYPED = {
    "kafkalog du": ["du", "dump-log"],
    "kafkalog dump-log --fo": ["--format"],
    "kafkalog dump-log --format js": ["json", "jsonl"],
    "kafkalog dump-log --format=js": ["json", "jsonl"],
    "kafkalog dump-log --offset ": [],
    "kafkalog dump-log --files a": ["a.log", "ab.index"],
    "kafkalog dump-log --files a.log,a": ["a.log,a.log", "a.log,ab.index"],
    "kafkalog dump-log --key-decoder-class Str": ["StringDecoder"],
    "kafkalog dump-log --key-decoder-class --prin": ["--print-data-log"],
    "kafkalog dump-log -- --fo": [],
    "kafkalog help reco": ["recover"],
    "kafkalog completion ": ["bash", "fish", "zsh"],
    "kafkalog spark ver": ["verify"],
    "kafkalog remote of": ["offsets"],
    "kafkalog remote list --ev": ["--events"],
    "kafkalog remote list --de": [],  # --delete is an option of orphans, --deep of verify
    "kafkalog remote -V verify --dee": ["--deep"],
    "kafkalog remote verify --rebu": [],  # an option of `kafkalog verify`
    "kafkalog remote --dee": [],
    "kafkalog spark verify --format js": ["json", "jsonl"],
}
COMPLETE = r"""
. "$1"
compopt() { :; }  # it may only be called while completion runs
shift
COMP_WORDS=("$@")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_kafkalog
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize("line", TYPED)
def test_bash_completes(line, tmp_path):
    for name in ("a.log", "ab.index"):
        (tmp_path / name).touch()
    words = line.replace("=", " = ").split(" ")
    needs("bash")
    done = subprocess.run(["bash", "-c", COMPLETE, "-", str(ROOT / "completions/kafkalog.bash"), *words], cwd=tmp_path,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert (sorted(done.stdout.split()), done.stderr) == (TYPED[line], "")


OF_PARTITIONS = pytest.mark.parametrize(("line", "offered"), [
    ("kafkalog fetch data --topic ", ["a.b-1", "orders"]), ("kafkalog fetch data -t o", ["orders"]),
    ("kafkalog fetch data -t orders --partition ", ["0", "12"]), ("kafkalog fetch --topic ", []),
    ("kafkalog fetch . --topic o", ["orders"]), ("kafkalog remote list . --topic o", ["orders"]),
])  # fmt: skip


@pytest.fixture
def partitions(tmp_path):
    """A directory with a log dir, `data`."""
    for name in ("orders-0", "orders-12", "a.b-1-0", "index-cache", "orders-0.b7-delete"):
        (tmp_path / "data" / name).mkdir(parents=True)
    (tmp_path / "data" / "file-7").touch()
    return tmp_path


@OF_PARTITIONS
def test_bash_completes_topics_and_partitions_of_the_log_dirs_that_are_named(line, offered, partitions):
    needs("bash")
    done = subprocess.run(["bash", "-c", COMPLETE, "-", str(ROOT / "completions/kafkalog.bash"), *line.split(" ")], cwd=partitions,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert (sorted(done.stdout.split()), done.stderr) == (offered, "")


@OF_PARTITIONS
def test_fish_completes_them_too(line, offered, partitions):
    needs("fish")
    script = f"source {ROOT}/completions/kafkalog.fish; complete -C '{line}'"
    done = subprocess.run(["fish", "--no-config", "-c", script], cwd=partitions, capture_output=True, text=True, check=False,
                          env={"HOME": str(partitions), "PATH": "/usr/bin:/bin"})  # fmt: skip
    assert (sorted(word.split("\t")[0] for word in done.stdout.splitlines()), done.stderr) == (offered, "")


# what zsh's completion would hand to the function of the script, and what that offers
ZSH = r"""
compdef() { }
_arguments() { }
source $1
compadd() { shift; (( $# )) && print -l -- $@; return 0 }
words=(${(s: :)3} ''); CURRENT=$#words
_kafkalog_partitions $2
"""


@OF_PARTITIONS
def test_zsh_completes_them_too(line, offered, partitions):
    needs("zsh")
    before, _, typed = line.partition(" ")[2].rpartition(" ")
    which = "2" if "--partition" in line else "1"
    done = subprocess.run(["zsh", "-f", "-c", ZSH, "-", str(ROOT / "completions/_kafkalog"), which, before], cwd=partitions,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert (sorted(word for word in done.stdout.split() if word.startswith(typed)), done.stderr) == (offered, "")
    specification = "partition=" if which == "2" else "topic="
    assert any(specification in row and f"{{_kafkalog_partitions {which}}}" in row
               for row in (ROOT / "completions/_kafkalog").read_text().splitlines())  # fmt: skip


@pytest.mark.parametrize("line", TYPED)
def test_fish_completes(line, tmp_path):
    needs("fish")
    for name in ("a.log", "ab.index"):
        (tmp_path / name).touch()
    script = f"source {ROOT}/completions/kafkalog.fish; complete -C '{line}'"
    done = subprocess.run(["fish", "--no-config", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False,
                          env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})  # fmt: skip
    offered = [word.split("\t")[0].removeprefix("--format=") for word in done.stdout.splitlines()]
    if "=" not in line and not line.rsplit(" ", 1)[-1].startswith("--"):
        offered = [word for word in offered if not word.startswith("--")]
    assert sorted(offered) == TYPED[line]


def test_a_command_that_is_not_there_is_met_with_the_nearest():
    done = kafkalog("dump")
    assert (done.out, done.status) == (b"", 2)
    assert "did you mean dump-log?" in done.err
    assert "there are: append, check, compact, completion, delete-records, diff, du, dump-log," in kafkalog("xyz").err


@pytest.mark.parametrize("words", [(), ("-h",), ("--help",), ("help",)])
def test_the_overview(words):
    done = kafkalog(*words)
    assert (done.err, done.status) == ("", 0)
    text = done.out.decode()
    assert "Commands:" in text
    for name, (_, summary) in COMMANDS.items():
        assert f"  {name} " in text
        assert summary.split()[0] in text


@pytest.mark.parametrize("name", sorted(commands()))
def test_help_shows_what_help_of_the_command_shows(name):
    done = kafkalog("help", *name.split())
    assert (done.err, done.status) == ("", 0)
    assert done.out == kafkalog(*name.split(), "--help").out


def test_help_of_a_command_that_is_not_there():
    done = kafkalog("help", "recov")
    assert (done.out, done.status) == (b"", 2)
    assert "did you mean recover?" in done.err


@pytest.mark.parametrize("name", sorted(commands()))
def test_the_short_help_fits_on_a_screen(name):
    command, done = commands()[name], kafkalog(*name.split(), "-h")
    assert (done.err, done.status) == ("", 0)
    lines = done.out.decode().splitlines()
    assert len(lines) <= 30
    assert lines[-1] == f"All options: kafkalog {name} --help"
    for option in command.main_options:
        assert any(line.startswith("  ") and option in line for line in lines), option
    assert len([line for line in lines if line.startswith("    kafkalog ")]) == 2
    assert len(lines) < len(kafkalog(*name.split(), "--help").out.splitlines())


@pytest.mark.parametrize("name", sorted(commands()))
def test_the_help_fits_a_narrow_terminal(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    for words in ("-h", "--help"):
        lines = kafkalog(*name.split(), words).out.decode().splitlines()
        unbroken = "    kafkalog ", "  -"  # command lines, names of options
        assert [line for line in lines if len(line) > 41 and not line.startswith(unbroken)] == []  # click breaks a word one letter late


@pytest.mark.parametrize("name", sorted(commands()))
def test_a_long_introduction_ends_with_the_name_of_the_man_page(name):
    introduction = []
    for line in kafkalog(*name.split(), "--help").out.decode().splitlines():
        if line.endswith(":") and not line.startswith(" "):
            break
        introduction.append(line)
    assert len(introduction) <= 16
    text = " ".join("\n".join(introduction).split())
    is_whole = " ".join(commands()[name].help.split()) in text
    assert is_whole is (f"Details: man kafkalog-{name.replace(' ', '-')}" not in introduction)


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_another_name_shares_the_page(alias, name):
    assert kafkalog(alias, "--help") == kafkalog(name, "--help") == kafkalog("help", alias)
    assert FILES[f"man/kafkalog-{alias}.1"] == f".so man1/kafkalog-{name}.1\n"
    assert f" {alias} " in FILES["completions/kafkalog.bash"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_script(shell):
    done = kafkalog("completion", shell)
    assert (done.err, done.status) == ("", 0)
    name = "_kafkalog" if shell == "zsh" else f"kafkalog.{shell}"
    assert done.out.decode() == FILES[f"completions/{name}"]


def test_the_overview_imports_no_command():
    code = """
import sys
from kafkalog_cli.main import main
try:
    main(["--help"])
finally:
    print([name for name in sys.modules if name.startswith(("kafkalog_cli.commands.", "engine.log"))])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colours_are_for_terminals_and_no_color_forbids_them(variables, coloured):
    terminal, end = os.openpty()
    done = subprocess.run([sys.executable, "-m", "kafkalog_cli.main", "dump-log", "no-such-file"], cwd=ROOT, check=False,
                          stdout=subprocess.PIPE, stderr=end, env={"PYTHONPATH": str(ROOT), **variables})  # fmt: skip
    os.close(end)
    said = all_said(terminal)
    assert done.returncode == 8
    assert (b"\x1b[" in said) is coloured
    assert "\x1b" not in kafkalog("dump-log", "no-such-file").err


@pytest.mark.parametrize(("variables", "coloured"), [({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)])
def test_colours_can_be_asked_for_in_a_pipe(variables, coloured):
    done = subprocess.run([sys.executable, "-m", "kafkalog_cli.main", "dump-log", "no-such-file"], cwd=ROOT, check=False,
                          capture_output=True, env={"PYTHONPATH": str(ROOT), **variables})  # fmt: skip
    assert (b"\x1b[" in done.stderr) is coloured
