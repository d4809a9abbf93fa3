"""`jissoku ui`: local pages that show runs."""

from pathlib import Path

import click

from jissoku.cli import exit_codes
from jissoku.ui.server import UiConfig, check_roots, serve_pages

PORT = 8642


@click.command()
@click.option(
    "--port",
    default=PORT,
    show_default=True,
    type=click.IntRange(0, 65_535),
    help="Port; 0 selects a free one.",
)
@click.option(
    "--listen", default="127.0.0.1", show_default=True, help="Loopback address: 127.0.0.1 or ::1."
)
@click.option(
    "--runs",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory with runs; repeatable. Default: runs.",
)
def ui(port: int, listen: str, runs: tuple[Path, ...]) -> int:
    """Show runs as pages in a browser, on this machine only.

    The printed link opens the pages in one browser. SIGINT (Ctrl-C) ends them.

    Exit codes: 0 ended by a signal, 2 bad input.
    """
    check_roots(runs)
    config = UiConfig(listen=listen, port=port, roots=runs or (Path("runs"),))
    serve_pages(config, _announce)
    return exit_codes.OK


def _announce(link: str) -> None:
    click.echo(f"The pages are at {link}\nThe link works once. Ctrl-C ends them.")
