"""`jissoku publish`: a folder of pages and records that names no machine."""

from pathlib import Path

import click

from jissoku.cli import exit_codes, shared_options
from jissoku.cli.messages import print_message
from jissoku.measure.publish import publish as write
from jissoku.model.wording import plural


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@shared_options.records
def publish(folder: Path, records: tuple[Path, ...]) -> int:
    """Write all runs as static pages with their records into a new folder, to be published.

    Paths, user, host and the machine's label are removed from the records; processor, cores, kernel
    and versions stay, because results depend on them. The pages can be checked:
    `jissoku publish NEW --records DIR/records` makes the same bytes, and SHA256SUMS lists them.

    Exit codes: 0 success, 2 bad input.
    """
    count = write(folder, records or (Path("runs"),), print_message)
    click.echo(f"{count} {plural(count, 'run')}: {folder / 'index.html'}")
    return exit_codes.OK
