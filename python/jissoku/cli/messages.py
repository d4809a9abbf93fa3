"""Lines that all commands print alike: the version, and messages on standard error."""

import click

from jissoku import _native


def version_line() -> str:
    """For example `jissoku 0.1.0 (release, 1a2b3c4)`; `dirty` when the tree had changes."""
    return f"jissoku {_native.__version__} ({_native.__build__})"


def print_message(sentence: str) -> None:
    """Prints an error, a warning or a note, after the program's name, to standard error."""
    click.echo(f"jissoku: {sentence}", err=True)
