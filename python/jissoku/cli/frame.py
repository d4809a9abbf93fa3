"""What all commands share: exit codes, messages, and options for their output."""

from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any

import click

from jissoku import _native


class ExitCode(IntEnum):
    """The same for every command."""

    OK = 0
    FAILED = 1
    BAD_INPUT = 2
    BOUND_EXCEEDED = 3
    UNDECIDED = 4
    INTERRUPTED = 130


def version_line() -> str:
    """For example `jissoku 0.1.0 (release, 1a2b3c4)`; `dirty` when the tree had changes."""
    return f"jissoku {_native.__version__} ({_native.__build__})"


def print_message(sentence: str) -> None:
    """Prints an error, a warning or a note, after the program's name, to standard error."""
    click.echo(f"jissoku: {sentence}", err=True)


out = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for records and reports. Default: a new one under runs/.",
)
quiet = click.option("--quiet", is_flag=True, help="Print no progress.")
records = click.option(
    "--records",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory with runs; repeatable. Default: runs.",
)


def as_json(what: str) -> Callable[[Any], Any]:
    """Whether `what` is printed as JSON instead of text."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what} as JSON.")
