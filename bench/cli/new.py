"""`new`: copies of an example, an approach that passes every check, as the start of an approach of one's own."""

from __future__ import annotations

import argparse
import keyword
import re
import shlex
import sys
from importlib import metadata
from pathlib import Path

from bench.cli.options import given_path, say
from bench.core.errors import ConfigError
from bench.core.project import TOP
from bench.core.text import one_line
from bench.plan.registry import manifest_folder

TEMPLATE = TOP / "examples" / "conv_net.py"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `new`."""
    parser.add_argument("name", help="of your approach, such as my_cnn")
    parser.add_argument("--to", type=given_path, default=Path(), metavar="DIR", help="folder (default: this one)")
    parser.set_defaults(action=_new)


def _new(arguments: argparse.Namespace) -> int:
    name, folder = arguments.name, arguments.to
    _check_name(name)
    files = {folder / f"{name}{suffix}": TEMPLATE.with_suffix(suffix) for suffix in (".py", ".toml")}
    for path in files:
        if path.exists() or path.is_symlink():
            raise ConfigError(f"{path} is there already; give another name, or another folder with --to")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    try:
        for path, template in files.items():
            with path.open("x", encoding="utf-8") as file:  # "x": not over a file that came meanwhile
                written.append(path)
                file.write(template.read_text(encoding="utf-8"))
    except BaseException:  # one file alone would stop the next call
        for path in written:
            path.unlink()
        raise
    python, manifest = map(str, files)
    say(f"written: {python} (your model, loss and prediction) and {manifest}; next:")
    say(f"    python -m bench audit {shlex.quote(python)}")
    say(f"    python -m bench run {name} --approach-path {shlex.quote(str(folder))} --profile smoke --results my-try")
    return 0


def _check_name(name: str) -> None:
    """Raise ConfigError unless it has the form of a Python name and is no approach's and no module's name."""
    if not re.fullmatch("[a-z][a-z0-9_]{0,49}", name) or keyword.iskeyword(name):
        form = "lower-case letters, digits and _, at most 50, a letter first, no word of Python"
        raise ConfigError(f"'{one_line(name, 50)}' cannot name an approach; give {form}, such as my_cnn")
    if (manifest_folder() / f"{name}.toml").exists():
        raise ConfigError(f"{name} is an approach of this suite; give another name, such as my_{name}")
    if name in {*sys.modules, *sys.stdlib_module_names, *metadata.packages_distributions()}:
        raise ConfigError(f"{name}.py would hide Python's module {name}; give another name, such as my_{name}")
