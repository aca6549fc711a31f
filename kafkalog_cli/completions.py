"""Completion scripts for bash, zsh and fish, generated from the commands.

They are static: no Python starts when TAB is pressed. `make docs` writes them into completions/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from kafkalog_cli.decoders import DecoderClass
from kafkalog_cli.help import DocumentedCommand, long_name
from kafkalog_cli.main import ALIASES, COMMANDS, cli
from kafkalog_cli.options import FileList

if TYPE_CHECKING:
    from collections.abc import Sequence

_OF_PARTITIONS = {"--topic": "topic", "--partition": "number"}
_NOTE = "completion for kafkalog, made by `make docs`"


class Offered(NamedTuple):
    """An option as completion needs it.

    words   possible values; empty: nothing to offer
    kind    flag, words, value (unknown), files (separated by commas), path, topic and number (of the partitions in the
            directories on the command line so far)
    optional  its value may be missing
    """

    names: tuple[str, ...]
    help: str
    kind: str
    words: tuple[str, ...] = ()
    optional: bool = False
    repeats: bool = False

    @property
    def name(self) -> str:
        """The long name of the option."""
        return self.names[-1]


class Page(NamedTuple):
    """A command as completion needs it. `words`: possible first arguments."""

    name: str
    help: str
    options: list[Offered]
    words: tuple[str, ...] = ()


def commands() -> dict[str, DocumentedCommand]:
    """Return every command by its first name, those of groups as `group command`. Raises TypeError for an undocumented one."""
    second = aliases()
    return {name: command for name, command in _commands_of(cli, "").items() if name not in second}


def aliases() -> dict[str, str]:
    """Return the other names of commands: name → first name."""
    found = _commands_of(cli, "")
    first = {command: name for name, command in reversed(found.items())}
    return ALIASES | {name: first[command] for name, command in found.items() if first[command] != name}


def _commands_of(group: click.Group, before: str) -> dict[str, DocumentedCommand]:
    found: dict[str, DocumentedCommand] = {}
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if not isinstance(command, DocumentedCommand):
            raise TypeError(f"{name} is not a DocumentedCommand")
        found[before + name] = command
        if isinstance(command, click.Group):
            found |= _commands_of(command, f"{before}{name} ")
    return found


def scripts() -> dict[str, str]:
    """Return the completion script of each shell."""
    found = commands()
    pages = [
        Page(name, COMMANDS[name][1].rstrip("."), _offered_by(name, found), _words_of(found[name])) for name in COMMANDS
    ]
    by_name = {page.name: page for page in pages}
    pages += [by_name[name]._replace(name=alias) for alias, name in ALIASES.items()]
    top = offered_options(cli)
    return {"bash": bash(top, pages), "zsh": zsh(top, pages), "fish": fish(top, pages)}


def _offered_by(name: str, found: dict[str, DocumentedCommand]) -> list[Offered]:
    """Return the options of a command; of a group those of all its commands."""
    of = [command for other, command in found.items() if other == name or other.startswith(f"{name} ")]
    return list({option.name: option for command in of for option in offered_options(command)}.values())


def _words_of(command: DocumentedCommand) -> tuple[str, ...]:
    """Return the possible first arguments of a command; empty if unknown."""
    first = next((parameter for parameter in command.params if isinstance(parameter, click.Argument)), None)
    if command.name == "help":
        return tuple(sorted(COMMANDS))
    if isinstance(command, click.Group):
        return tuple(command.list_commands(click.Context(command)))
    return tuple(map(str, first.type.choices)) if first is not None and isinstance(first.type, click.Choice) else ()


def offered_options(command: click.Command) -> list[Offered]:
    """Return the options of a command in the order of its help."""
    ctx = click.Context(command)
    if isinstance(command, DocumentedCommand):
        parameters = [option for _title, options in command.options_by_section(ctx) for option in options]
    else:
        parameters = command.get_params(ctx)
    return [_offered(option) for option in parameters if isinstance(option, click.Option)]


def _offered(option: click.Option) -> Offered:
    names = (*(name for name in option.opts if name != long_name(option)), long_name(option))
    text = (option.help or "").partition(". ")[0].rstrip(".")
    optional = not option.is_flag and option.flag_value is not None and isinstance(option.flag_value, str)
    kind = "value"
    words: tuple[str, ...] = ()
    if option.is_flag:
        kind = "flag"
    elif isinstance(option.type, click.Choice):
        kind, words = "words", tuple(str(choice) for choice in option.type.choices)
    elif isinstance(option.type, DecoderClass):
        kind, words = "words", DecoderClass.suggestions
    elif isinstance(option.type, FileList):
        kind = "files"
    elif isinstance(option.type, click.Path):
        kind = "path"
    elif long_name(option) in _OF_PARTITIONS:
        kind = _OF_PARTITIONS[long_name(option)]
    return Offered(names, text, kind, words, optional, option.multiple)


def bash(group: Sequence[Offered], pages: Sequence[Page]) -> str:
    """completions/kafkalog.bash."""
    cases = [case for page in pages for case in _bash_case(page)]
    top = " ".join([*(page.name for page in pages), *_all_names(group)])
    return "\n".join([f"# bash {_NOTE}", *_BASH_HEAD.format(top=top).splitlines(), *cases, *_BASH_TAIL.splitlines(), ""])


_BASH_HEAD = r"""
# words that begin with what was typed, and no file names
_kafkalog_words() {{
    compopt +o default 2>/dev/null
    local word
    for word in $1; do
        [[ $word == "$2"* ]] && COMPREPLY+=("$word")
    done
}}

# the last one of several file names with commas between them
_kafkalog_files() {{
    compopt +o default 2>/dev/null
    compopt -o nospace 2>/dev/null
    local before='' name
    [[ $1 == *,* ]] && before=${{1%,*}},
    while IFS= read -r name; do
        [[ -d $name ]] && name=$name/
        COMPREPLY+=("$before$(printf %q "$name")")
    done < <(compgen -f -- "${{1##*,}}")
}}

# topics (1) or numbers (2) of the partitions in the directories that the command line names
_kafkalog_partitions() {{
    compopt +o default 2>/dev/null
    local place name
    for place in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        place=${{place/#\~/$HOME}}
        [[ -d $place ]] || continue
        for name in "$place"/*-[0-9]*/; do
            name=${{name%/}}
            [[ ${{name##*/}} =~ ^(.+)-([0-9]+)$ ]] || continue
            name=${{BASH_REMATCH[$1]}}
            [[ $name == "$2"* && " ${{COMPREPLY[*]}} " != *" $name "* ]] && COMPREPLY+=("$name")
        done
    done
}}

_kafkalog() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command='' at=0 i
    COMPREPLY=()
    # bash makes three words of --option=value
    if [[ $cur == = ]]; then
        cur=''
    elif [[ $prev == = ]]; then
        prev=${{COMP_WORDS[COMP_CWORD-2]}}
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ ${{COMP_WORDS[i]}} == -- ]] && return
        [[ -z $command && ${{COMP_WORDS[i]}} != -* ]] && command=${{COMP_WORDS[i]}} at=$i
    done
    case $command in
    '')
        _kafkalog_words '{top}' "$cur"
        ;;"""
_BASH_TAIL = """    esac
}

complete -o default -o bashdefault -F _kafkalog kafkalog"""


def _bash_case(page: Page) -> list[str]:
    """Return the branch of one command: values first, then options; without output bash completes file names."""
    lines = [f"    {page.name})", "        case $prev in"]
    for action, options in _bash_values(page.options).items():
        lines += [f"        {'|'.join(options)})", *(f"            {line}" for line in action.splitlines()), "            ;;"]
    names = " ".join(_all_names(page.options))
    lines += ["        esac", "        if [[ $cur == -* ]]; then", f"            _kafkalog_words '{names}' \"$cur\""]
    if page.words:
        words = " ".join(page.words)
        lines += ["        elif (( COMP_CWORD == at + 1 )); then", f"            _kafkalog_words '{words}' \"$cur\""]
    return [*lines, "        fi", "        ;;"]


def _bash_values(options: Sequence[Offered]) -> dict[str, list[str]]:
    """Return what bash does after an option → the options for which it does so."""
    actions: dict[str, list[str]] = {}
    for option in options:
        if option.kind == "flag":
            continue
        if option.kind == "files":
            action = '_kafkalog_files "$cur"\nreturn'
        elif option.kind in ("topic", "number"):
            action = f'_kafkalog_partitions {1 if option.kind == "topic" else 2} "$cur"\nreturn'
        elif option.kind == "path":
            action = "return"
        elif option.words:
            action = f"_kafkalog_words '{' '.join(option.words)}' \"$cur\"\nreturn"
        else:
            action = "compopt +o default 2>/dev/null\nreturn"
        if option.optional:
            action = "if [[ $cur != -* ]]; then\n" + "".join(f"    {line}\n" for line in action.splitlines()) + "fi"
        actions.setdefault(action, []).extend(option.names)
    return actions


def _all_names(options: Sequence[Offered]) -> list[str]:
    return [name for option in options for name in option.names]


_ZSH_HEAD = r"""
# topics (1) or numbers (2) of the partitions in the directories that the command line names
_kafkalog_partitions() {
    local -a found
    local place name
    for place in ${(Q)words[1,CURRENT-1]}; do
        place=${place/#\~/$HOME}
        [[ -d $place ]] || continue
        for name in $place/*-<->(N/:t); do
            [[ $1 == 1 ]] && found+=(${name%-*}) || found+=(${name##*-})
        done
    done
    compadd -- ${(u)found}
}
"""


def zsh(group: Sequence[Offered], pages: Sequence[Page]) -> str:
    """completions/_kafkalog."""
    lines = ["#compdef kafkalog", f"# zsh {_NOTE}", *_ZSH_HEAD.splitlines(), ""]
    for page in pages:
        lines += [f"{_function(page)}() {{", "    _arguments -S \\"]
        lines += [f"        {_zsh_option(option)} \\" for option in page.options]
        if page.words:
            lines += [f"        '1:{page.name}:({' '.join(page.words)})' \\"]
        lines += ["        '*:file:_files'", "}", ""]
    lines += ["_kafkalog() {", "    local curcontext=$curcontext state line", "    _arguments -C \\"]
    lines += [f"        {_zsh_option(option)} \\" for option in group]
    lines += ["        '1:command:->command' '*::argument:->argument'", "    case $state in", "    command)",
              "        local -a commands=("]  # fmt: skip
    lines += [f"            {_quoted(page.name + ':' + page.help)}" for page in pages]
    lines += ["        )", "        _describe command commands", "        ;;", "    argument)", "        case $line[1] in"]
    lines += [f"        {page.name}) {_function(page)} ;;" for page in pages]
    return "\n".join([*lines, "        esac", "        ;;", "    esac", "}", "", '_kafkalog "$@"', ""])


def _function(page: Page) -> str:
    return "_kafkalog_" + page.name.replace("-", "_")


def _zsh_option(option: Offered) -> str:
    """Return one specification of _arguments."""
    text = option.help.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    actions = {
        "words": f"({' '.join(option.words)})", "files": '{compset -P "*,"; _files}', "path": "_files",
        "topic": "{_kafkalog_partitions 1}", "number": "{_kafkalog_partitions 2}",
    }  # fmt: skip
    action = actions.get(option.kind, " ")
    specifications = []
    for name in option.names:
        others = "" if option.repeats or len(option.names) == 1 else f"({' '.join(option.names)})"
        if option.kind == "flag":
            specifications.append(f"{others}{name}[{text}]")
        else:
            colon = "::" if option.optional else ":"
            specifications.append(f"{'*' if option.repeats else others}{name}=[{text}]{colon}value:{action}")
    return " ".join(_quoted(specification) for specification in specifications)


_FISH_HEAD = r"""
# topics (1) or numbers (2) of the partitions in the directories that the command line names
function __kafkalog_partitions
    for place in (string replace -r '^~' $HOME -- (commandline -opc)[2..-1])
        for directory in $place/*-*/
            set -l found (string match -r '([^/]+)-([0-9]+)/$' -- $directory)
            and echo $found[(math 1 + $argv[1])]
        end
    end
end
"""


def fish(group: Sequence[Offered], pages: Sequence[Page]) -> str:
    """completions/kafkalog.fish."""
    lines = [f"# fish {_NOTE}", *_FISH_HEAD.splitlines(), ""]
    lines += [_fish("__fish_use_subcommand", option) for option in group]
    for page in pages:
        seen = f"__fish_seen_subcommand_from {page.name}"
        lines.append(f"complete -c kafkalog -n __fish_use_subcommand -f -a {page.name} -d {_quoted(page.help)}")
        if page.words:
            first = f"{seen}; and test (count (commandline -opc)) -eq 2"
            lines.append(f"complete -c kafkalog -n {_quoted(first)} -f -a {_quoted(' '.join(page.words))}")
        for option in page.options:
            lines.append(_fish(seen, option))
            if option.optional:
                before = f'{seen}; and contains -- (commandline -opc)[-1] {" ".join(option.names)}'
                lines.append(f"complete -c kafkalog -n {_quoted(before)} -f -a {_quoted(' '.join(option.words))}")
    return "\n".join([*lines, ""])


def _fish(condition: str, option: Offered) -> str:
    parts = ["complete -c kafkalog -n", _quoted(condition)]
    parts += [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    if option.kind == "words":
        parts.append(("" if option.optional else "-x ") + f"-a {_quoted(' '.join(option.words))}")
    elif option.kind == "files":
        parts.append("-x -a '(__fish_complete_list , __fish_complete_path)'")
    elif option.kind == "path":
        parts.append("-r -F")
    elif option.kind in ("topic", "number"):
        parts.append(f"-x -a '(__kafkalog_partitions {1 if option.kind == 'topic' else 2})'")
    elif option.kind == "value":
        parts.append("-x")
    return " ".join([*parts, "-d", _quoted(option.help)])


def _quoted(text: str) -> str:
    """Quote one word for bash, zsh and fish alike."""
    return "'" + text.replace("'", "'\"'\"'") + "'"
