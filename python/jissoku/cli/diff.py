"""`jissoku diff`: two runs side by side, as far as they are comparable."""

from pathlib import Path

import click

from jissoku.cli import exit_codes, shared_options
from jissoku.cli.messages import print_message
from jissoku.measure.history import find_run, open_history
from jissoku.report.history import difference_text


@click.command()
@click.argument("runs", nargs=2, metavar="RUN RUN")
@shared_options.records
def diff(runs: tuple[str, str], records: tuple[Path, ...]) -> int:
    """Compare two runs through the arms that are the same program in both.

    A RUN is a folder, or the beginning of a key that `jissoku history` prints. Two runs that share
    no such arm, or differ in workload, rate, cores or machine, are not comparable: the reasons are
    printed, and the command that measures the arms of both together.

    Exit codes: 0 compared, 2 bad input, 4 not comparable.
    """
    folders = [Path(name) for name in runs if (Path(name) / "run.json").is_file()]
    roots = records or ((Path("runs"),) if len(folders) < len(runs) else ())
    found = open_history((*roots, *folders), print_message)
    first, second = (find_run(found.headers(), name).row.run for name in runs)
    answer = found.difference(first, second)
    click.echo(difference_text(answer), nl=False)
    return exit_codes.UNDECIDED if answer.obstacles else exit_codes.OK
