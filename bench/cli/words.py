"""The words of a command line: what a shell completes, the nearest to a wrong one, and commands that are gone."""

from __future__ import annotations

import argparse
import difflib
import itertools
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from functools import partial

SHELLS = ("bash", "zsh")
UNKNOWN_OPTION = re.compile(r"unrecognized arguments: (?P<given>-[\w-]+)")
UNKNOWN_CHOICE = re.compile(r"invalid choice: '(?P<given>[^']*)' \(choose from (?P<known>[^)]*)\)")
GONE = {
    "ladder": "ladder is now called ablation: bench ablation",
    "reference": "reference is now called baseline: bench baseline",
    "submit": "submit is gone: give others your results folder, which they check by: bench compare FOLDER --verify",
}
# $2: the word that is completed; $3: the word before it. Without words the shell completes names of files.
SCRIPT = """_bnn_bench() {{
  local words=
  if [ "$COMP_CWORD" -eq 1 ]; then words={commands}
  else case "${{COMP_WORDS[1]}} $3" in
{cases}
  esac; fi
  COMPREPLY=($(compgen -W "$words" -- "$2"))
}}
complete -o default -F _bnn_bench bnn-bench
"""
FOR_ZSH = "autoload -Uz compinit bashcompinit && compinit && bashcompinit\n"


def listed(commands: Iterable[tuple[str, tuple[str, str, str]]]) -> str:
    """Return a line for each command, below the name of its group; given are names with group, place and help."""
    lines = []
    for group, found in itertools.groupby(commands, lambda item: item[1][0]):
        lines += [f"{group}:", *(f"  {name:<10} {text}" for name, (_, _, text) in found)]
    return "\n".join(lines)


def nearest(message: str, parser: argparse.ArgumentParser) -> str:
    """Return a suggestion if argparse's message names an unknown option or choice, else ''."""
    option, choice = UNKNOWN_OPTION.search(message), UNKNOWN_CHOICE.search(message)
    below = [one._name_parser_map.values() for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    known = [name for one in itertools.chain([parser], *below) for name in one._option_string_actions]
    given = option["given"] if option else ""
    if choice:
        given, known = choice["given"], re.findall("'([^']*)'", choice["known"])
    begins = [name for name in known if given and name.startswith(given)]  # an abbreviation, which is not accepted
    near = begins or difflib.get_close_matches(given, known, n=1)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `completion`."""
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(action=_print_script)


def _print_script(arguments: argparse.Namespace) -> int:
    """Print what a shell must read to complete commands, options and names; it then starts no Python for a word."""
    parsers = arguments.parsers()
    names = _names()
    cases = [case for command, parser in parsers.items() for case in _cases(command, parser, names)]
    text = SCRIPT.format(commands=shlex.quote(" ".join(parsers)), cases="\n".join(cases))
    print((FOR_ZSH if arguments.shell == "zsh" else "") + text, end="")
    return 0


def _cases(
    command: str, parser: argparse.ArgumentParser, names: Mapping[str, Callable[[], Iterable[str]]]
) -> list[str]:
    """Return the cases of a command: after an option with a value its values, else positional words or options."""
    after: dict[str, list[str]] = {}  # options by the words that may follow
    positional = list[str]()
    for action in parser._actions:
        words = _words(command, action, names)
        if not action.option_strings:
            positional += words
        elif action.nargs != 0:
            after.setdefault(" ".join(words), []).extend(f'"{command} {option}"' for option in action.option_strings)
    cases = [f"  {'|'.join(places)}) words={shlex.quote(words)} ;;" for words, places in after.items()]
    options = [option for action in parser._actions for option in action.option_strings if option.startswith("--")]
    is_option = f"case $2 in -*) words={shlex.quote(' '.join(options))} ;; esac"
    return [*cases, f'  "{command} "*) words={shlex.quote(" ".join(positional))}; {is_option} ;;']


def _words(command: str, action: argparse.Action, names: Mapping[str, Callable[[], Iterable[str]]]) -> list[str]:
    """Return the words that an option or a positional argument takes; none: a file, a number or free text."""
    if action.choices is not None:
        return list(action.choices)
    made = names.get(f"{command} {action.dest}") or names.get(action.dest)
    return list(made()) if made else []


def _names() -> dict[str, Callable[[], Iterable[str]]]:
    """Return how to find the names that an argument takes, by its name, if need be with the command before it."""
    from bench.cli.audit import PARTS  # here and below: a wrong word needs none of these
    from bench.core.precision import PRECISIONS
    from bench.data.manifest import ALL_NAMES, TASKS
    from bench.judge.audit.documents import DOCUMENTS
    from bench.judge.audit.rules import RULES
    from bench.judge.claims import load_claims
    from bench.plan.recipes import PROFILES, recipe_names
    from bench.plan.registry import manifests
    from bench.plan.trained_runs import PROTOCOLS
    from bench.posterior.tasks import all_tasks
    from bench.show.tables.registry import TABLES
    from bench.uci.data import sets

    recipes = dict.fromkeys(itertools.chain.from_iterable(recipe_names(entry) for entry in manifests().values()))
    plain = {"profile": PROFILES, "precision": PRECISIONS, "protocol": PROTOCOLS, "task": TASKS, "rule": RULES}
    plain |= {"device": ("cpu", "cuda"), "recipe": recipes, "document": DOCUMENTS, "data_set": ALL_NAMES}
    found: dict[str, Callable[[], Iterable[str]]] = {name: partial(iter, words) for name, words in plain.items()}
    found |= dict.fromkeys(("approach", "approaches", "gate init"), manifests)
    found |= dict.fromkeys(("posterior tasks", "posterior check", "score task"), all_tasks)
    found["audit what"] = lambda: (*PARTS, *manifests())
    found["uci names"] = sets
    found["table name"] = lambda: itertools.chain.from_iterable(kind.questions() for kind in TABLES)
    found["verdict claim"] = lambda: (claim.id for claim in load_claims())
    return found
