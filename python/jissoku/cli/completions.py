"""The verbs of the laboratory for `jissoku completions` and `jissoku man`, which are native.

Both make their texts from the definitions of all verbs: a shell then completes without starting
Python, and importing the laboratory would take it a second.
"""

import json
import sys
from collections.abc import Iterator
from inspect import cleandoc
from itertools import chain
from typing import Any

import click

from jissoku import _native
from jissoku.cli.commands import LAB_COMMANDS, is_of_lab, jissoku
from jissoku.cli.help import Grouped


def main() -> None:
    """Runs `jissoku completions SHELL` or `jissoku man FOLDER`, and exits."""
    sys.exit(_native.run(["jissoku", *sys.argv[1:], "--more", definitions()]))


def definitions() -> str:
    return json.dumps([_verb(*row) for rows in LAB_COMMANDS.values() for row in rows.items()])


def _verb(name: str, about: str) -> dict[str, Any]:
    try:
        command = jissoku.get_command(click.Context(jissoku), name)
    except ModuleNotFoundError as error:
        # Without the extra `lab`, a verb is completed and its options are not.
        if not is_of_lab(error):
            raise
        command = None
    groups = command.groups if isinstance(command, Grouped) else {}
    headings = {name: heading for heading, names in groups.items() for name in chain(*names)}
    places = {name: place for place, name in enumerate(headings)}
    parameters = command.params if command else []
    parameters = sorted(parameters, key=lambda one: places.get(one.name or "", len(places)))
    return {
        "name": name,
        "about": about,
        "description": cleandoc((command and command.help) or about),
        "parameters": [
            {**written, "heading": headings.get(one.name or "")}
            for one in parameters
            for written in _parameter(one)
        ],
    }


def _parameter(parameter: click.Parameter) -> Iterator[dict[str, Any]]:
    is_option = isinstance(parameter, click.Option)
    kind = parameter.type
    # With its default and its range.
    record = parameter.get_help_record(click.Context(jissoku))
    written = {
        "name": parameter.name,
        "words": parameter.opts if is_option else [],
        "help": record[1].replace("  [", " [") if record else "",
        "metavar": parameter.metavar or (parameter.name or "").upper(),
        "choices": [*map(str, kind.choices)] if isinstance(kind, click.Choice) else [],
        "takes_value": not (is_option and getattr(parameter, "is_flag", False)),
        "is_repeated": getattr(parameter, "multiple", False) or parameter.nargs == -1,
        "is_path": isinstance(kind, click.Path | click.File) or kind.name in {"path", "file"},
    }
    yield written
    # The second words of a switch, as in --quick/--standard.
    if opposite := parameter.secondary_opts:
        help_text = f"The opposite of {parameter.opts[-1]}."
        yield written | {"name": f"no_{parameter.name}", "words": opposite, "help": help_text}
