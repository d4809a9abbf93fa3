"""`jissoku report`: rebuilds the reports from the records."""

from pathlib import Path

import click

from jissoku import records
from jissoku.cli import shared_options
from jissoku.cli.run import publish_experiment
from jissoku.cli.write_reports import write_profile_report, write_report
from jissoku.records import experiment as experiments


@click.command()
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@shared_options.as_json("the summary")
def report(run: Path, *, as_json: bool) -> int:
    """Rebuild every report of a RUN or an experiment from its records, and print the answer.

    The same records give the same bytes.
    """
    if experiments.is_experiment(run):
        return publish_experiment(run, as_json=as_json)
    if not records.read_profiles(run):
        return write_report(run, as_json=as_json)
    if not (run / "run.json").exists():
        return write_profile_report(run, as_json=as_json)
    write_profile_report(run, as_json=False, quiet=as_json)
    return write_report(run, as_json=as_json)
