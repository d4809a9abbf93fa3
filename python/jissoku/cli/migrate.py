"""`jissoku migrate`: the command line of another server as one of `jissoku serve`."""

import shlex
from pathlib import Path

import click

from jissoku.cli.frame import ExitCode
from jissoku.errors import InputError
from jissoku.migrate.nginx import migrate_nginx
from jissoku.migrate.translate import NO_APP, Migration, migrate as translated
from jissoku.system.cpu_count import cpu_count


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("words", nargs=-1, required=True, metavar="COMMAND...")
def migrate(words: tuple[str, ...]) -> int:
    """Print the `jissoku serve` for a command line of another server, and what differs.

    COMMAND is written as in the shell, such as gunicorn mysite.wsgi -w 4 -b :8000, or as one word
    in quotation marks. Known are gunicorn (with its FILE.py, which is read and not run), uvicorn,
    granian, hypercorn, uwsgi (with its ini file), and nginx -c FILE, of which plain servers and
    locations become routes. Nothing is started.

    Standard output has the line alone, or of nginx the configuration file; what differs is on
    standard error.

    Exit codes: 0 success, 2 bad input, or a line without an application.
    """
    try:
        line = shlex.split(words[0]) if len(words) == 1 else list(words)
    except ValueError as error:
        raise InputError(f"the command line: {error}") from error
    if line and Path(line[0]).name == "nginx":
        found = _of_nginx(line)
    else:
        found = translated(line, _read, cpu_count())
    click.echo(found.config.rstrip() or found.line)
    if found.config:
        click.echo(f"\nto start it, with this as serve.toml:\n  {found.line}", err=True)
    for heading, sentences in (("differs", found.differs), ("no counterpart", found.absent)):
        if sentences:
            click.echo(f"\n{heading}:", err=True)
            for sentence in sentences:
                click.echo(f"  {sentence}", err=True)
    return ExitCode.BAD_INPUT if NO_APP in found.words else ExitCode.OK


def _of_nginx(line: list[str]) -> Migration:
    """Reads the configuration of `nginx -c FILE`, or of `nginx FILE`."""
    # A library of the extra `lab`, which other servers do not need.
    import crossplane  # type: ignore[import-untyped]  # noqa: PLC0415

    values = {at for at, word in enumerate(line) if line[at - 1] in {"-g", "-p", "-e", "-s"}}
    files = [
        word for at, word in enumerate(line) if at and at not in values and not word.startswith("-")
    ]
    if len(files) != 1:
        raise InputError("write nginx -c FILE")
    _read(files[0])
    # A file of sites-available has servers outside of http.
    parsed = crossplane.parse(files[0], single=True, check_ctx=False, check_args=False)
    for error in parsed["errors"]:
        raise InputError(f"{files[0]}, line {error['line']}: {error['error']}")
    return migrate_nginx(parsed["config"][0]["parsed"])


def _read(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {name}: {error}") from error
