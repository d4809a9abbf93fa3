"""The frame of all commands: options as values of their structs, exit codes, messages."""

from collections.abc import Callable
from enum import IntEnum
from functools import wraps
from typing import Any

import click
import msgspec

from jissoku import _native
from jissoku.request.options import asking


class ExitCode(IntEnum):
    """The same for every command."""

    OK = 0
    FAILED = 1
    BAD_INPUT = 2
    BOUND_EXCEEDED = 3
    UNDECIDED = 4
    INTERRUPTED = 130


def verb(*kinds: type[msgspec.Struct]) -> Callable[[Callable[..., int]], click.Command]:
    """A command with the options of some structs, whose function gets a value of each."""

    def decorated(function: Callable[..., int]) -> click.Command:
        @wraps(function)
        def called(**given: Any) -> int:
            return function(
                *(kind(**{name: given[name] for name in kind.__struct_fields__}) for kind in kinds)
            )

        asked: Any = called
        for kind in reversed(kinds):
            asked = asking(kind)(asked)
        command: click.Command = click.command(asked)
        return command

    return decorated


def version_line() -> str:
    """For example `jissoku 0.1.0 (release, 1a2b3c4)`; `dirty` when the tree had changes."""
    return f"jissoku {_native.__version__} ({_native.__build__})"


def print_message(sentence: str) -> None:
    """Prints an error, a warning or a note, after the program's name, to standard error."""
    click.echo(f"jissoku: {sentence}", err=True)
