"""`jissoku ui`: local pages that start, watch and list runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import click
import msgspec

from jissoku.cli.frame import ExitCode, verb
from jissoku.errors import InputError
from jissoku.request.options import option
from jissoku.ui.server import UiConfig, check_roots, serve_pages


class UiOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the command.

    Attributes:
        port: Port; 0 selects a free one.
        listen: Loopback address: 127.0.0.1 or ::1.
        runs: Directory with runs; repeatable. Default: runs.
        allow_commands: Accept commands, files and URLs of this machine from the pages, and not only
            recipes.
        read_only: Show runs only: nothing can be started, stopped or changed from the pages.
        metrics: Show live figures of `jissoku serve --metrics WHERE`: HOST:PORT of this machine or
            unix:PATH; repeatable.
        foreground: Run in the normal class and on all cores: for machines that are busy with other
            work, and not for measurements.
    """

    port: Annotated[int, option("--port", type=click.IntRange(0, 65_535))] = 8642
    listen: Annotated[str, option("--listen")] = "127.0.0.1"
    runs: Annotated[
        tuple[Path, ...], option("--runs", type=click.Path(path_type=Path), metavar="DIR")
    ] = ()
    allow_commands: Annotated[bool, option("--allow-commands")] = False
    read_only: Annotated[bool, option("--read-only")] = False
    metrics: Annotated[tuple[str, ...], option("--metrics", metavar="WHERE")] = ()
    foreground: Annotated[bool, option("--foreground")] = False


@verb(UiOptions)
def ui(options: UiOptions) -> int:
    """Start, watch and browse runs as pages in a browser, on this machine only.

    The printed link opens the pages in one browser. SIGINT (Ctrl-C) ends them.

    Exit codes: 0 ended by a signal, 2 bad input.
    """
    if options.read_only and options.allow_commands:
        raise InputError("--read-only and --allow-commands exclude each other")
    check_roots(options.runs)
    config = UiConfig(
        listen=options.listen,
        port=options.port,
        roots=options.runs or (Path("runs"),),
        check=_check,
        allows_commands=options.allow_commands,
        is_read_only=options.read_only,
        metrics=options.metrics,
        is_background=not options.foreground,
    )
    serve_pages(config, _announce)
    return ExitCode.OK


def _check(arguments: Sequence[str]) -> None:
    """Parses a command line as in the terminal, and runs nothing.

    Raises:
        InputError: It is invalid; the message is the same as in the terminal.
    """
    # `commands` lists this module, too.
    from jissoku.cli.commands import jissoku  # noqa: PLC0415

    name, *rest = arguments
    try:
        command = jissoku.get_command(click.Context(jissoku), name)
        assert command is not None, f"{name} is a command of ours"
        command.make_context(name, rest)
    except click.ClickException as refusal:
        raise InputError(refusal.format_message()) from refusal


def _announce(link: str) -> None:
    click.echo(f"The pages are at {link}\nThe link works once. Ctrl-C ends them.")
