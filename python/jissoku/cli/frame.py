"""The frame of all commands: exit codes and messages. Needs none of the laboratory's libraries."""

import shutil
import sys
import textwrap
from enum import IntEnum

import click


class ExitCode(IntEnum):
    """The same for every command."""

    OK = 0
    FAILED = 1
    BAD_INPUT = 2
    BOUND_EXCEEDED = 3
    UNDECIDED = 4
    INTERRUPTED = 130


def exit_code(
    *,
    is_finished: bool = True,
    is_failed: bool = False,
    is_exceeded: bool = False,
    is_undecided: bool = False,
) -> ExitCode:
    """The code of the first of these that is the case."""
    if not is_finished:
        return ExitCode.INTERRUPTED
    if is_failed:
        return ExitCode.FAILED
    if is_exceeded:
        return ExitCode.BOUND_EXCEEDED
    return ExitCode.UNDECIDED if is_undecided else ExitCode.OK


def version_line() -> str:
    """For example `jissoku 0.1.0 (release, 1a2b3c4)`; `dirty` when the tree had changes."""
    from jissoku import _native  # noqa: PLC0415 - `jissoku --help` is shown without it

    return f"jissoku {_native.__version__} ({_native.__build__})"


def print_message(sentence: str) -> None:
    """Prints an error, a warning or a note, after the program's name, to standard error."""
    click.echo(f"jissoku: {sentence}", err=True)


def print_text(text: str) -> None:
    """Prints a report; on a terminal no word is cut at its right edge."""
    if sys.stdout.isatty():
        text = fitted(text, shutil.get_terminal_size().columns)
    click.echo(text, nl=False)


def fitted(text: str, width: int) -> str:
    """The text with longer lines broken between words; a diff stays as it is."""
    lines = []
    is_diff = False
    for line in text.splitlines(keepends=True):
        # An empty line ends a diff: one of its own lines has a first character.
        is_diff = line.startswith("--- ") or (is_diff and line != "\n")
        fits = is_diff or len(line.rstrip("\n")) <= width
        lines.append(line if fits else _broken(line, width))
    return "".join(lines)


def _broken(line: str, width: int) -> str:
    indent = len(line) - len(line.lstrip(" "))
    parts = textwrap.wrap(
        line.rstrip("\n"),
        width,
        subsequent_indent=" " * (indent + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(parts) + "\n" * line.endswith("\n")
