"""`jissoku ui`: local pages that start, watch and list runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import click
import msgspec

from jissoku.cli.frame import ExitCode, verb
from jissoku.errors import InputError
from jissoku.model.updated import updated
from jissoku.request.options import option
from jissoku.ui.server import UiConfig, check_roots, serve_pages


class UiOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options beside those of the configuration.

    Attributes:
        foreground: Run in the normal class and on all cores: for machines that are busy with other
            work, and not for measurements.
    """

    foreground: Annotated[bool, option("--foreground")] = False


@verb(UiConfig, UiOptions)
def ui(config: UiConfig, options: UiOptions) -> int:
    """Start, watch and browse runs as pages in a browser, on this machine only.

    The printed link opens the pages in one browser. SIGINT (Ctrl-C) ends them.

    Exit codes: 0 ended by a signal, 2 bad input.
    """
    if config.is_read_only and config.allows_commands:
        raise InputError("--read-only and --allow-commands exclude each other")
    check_roots(config.roots)
    roots = config.roots or (Path("runs"),)
    serve_pages(
        updated(config, roots=roots, check=_check, is_background=not options.foreground), _announce
    )
    return ExitCode.OK


def _check(arguments: Sequence[str]) -> None:
    """Parses a command line as in the terminal, with the same refusals, and runs nothing."""
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
