"""`jissoku ui`: local pages that start, watch and list runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import click
import msgspec

from jissoku._native import flame_graph
from jissoku.cli.frame import ExitCode
from jissoku.errors import InputError
from jissoku.model.updated import updated
from jissoku.request.options import option, verb
from jissoku.ui.server import UiConfig, check_roots, link_of_running, serve_pages


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

    The printed link opens the pages in one browser. SIGINT (Ctrl-C) ends them. While they are
    open, another start in a second terminal prints a fresh link to them and ends.

    Exit codes: 0 ended by a signal, or already open, 2 bad input.
    """
    if config.is_read_only and config.allows_commands:
        raise InputError("--read-only and --allow-commands exclude each other")
    check_roots(config.roots)
    config = updated(
        config,
        roots=config.roots or (Path("runs"),),
        check=_check,
        draw=flame_graph,
        is_background=not options.foreground,
    )
    if link := link_of_running(config):
        click.echo(f"The pages are open already, as they were started, at {link}")
        click.echo("The link works once, as each that is printed so.")
    else:
        serve_pages(config, _announce)
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
    port = urlsplit(link).port
    again = "jissoku ui" if port == UiConfig().port else f"jissoku ui --port {port}"
    click.echo(
        f"The pages are at {link}\nThe link works once; `{again}` in another terminal prints a"
        " fresh one. Ctrl-C ends them."
    )
