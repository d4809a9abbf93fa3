"""`jissoku migrate`: the command line of another server as one of `jissoku serve`."""

import shlex
from pathlib import Path

import click

from jissoku.cli.frame import ExitCode
from jissoku.errors import InputError
from jissoku.migrate.translate import migrate as translated


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="COMMAND...")
def migrate(words: tuple[str, ...]) -> int:
    """Print the `jissoku serve` for a command line of another server, and what differs.

    COMMAND is one word in quotation marks, such as "gunicorn mysite.wsgi -w 4 -b :8000", or several
    after --. Known are gunicorn (with its -c FILE.py, which is read and not run), uvicorn, granian,
    hypercorn and uwsgi (with its ini file). Nothing is started.

    Exit codes: 0 success, 2 bad input.
    """
    try:
        line = shlex.split(words[0]) if len(words) == 1 else list(words)
    except ValueError as error:
        raise InputError(f"the command line: {error}") from error
    found = translated(line, _read)
    click.echo(found.line)
    for heading, sentences in (("differs", found.differs), ("no counterpart", found.absent)):
        if sentences:
            click.echo(f"\n{heading}:")
            for sentence in sentences:
                click.echo(f"  {sentence}")
    return ExitCode.OK


def _read(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {name}: {error}") from error
