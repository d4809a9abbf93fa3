"""Prints the report of a run's profiles, and says where it is."""

from pathlib import Path

import click

from jissoku._native import flame_graph
from jissoku.cli import exit_codes
from jissoku.pipeline.profile_reports import write_profile_reports


def write_profile_report(folder: Path, *, as_json: bool, quiet: bool = False) -> int:
    """Writes everything that is made from the profiles of a folder, and prints one of it."""
    write_profile_reports(folder, flame_graph)
    if as_json:
        click.echo((folder / "profile.json").read_text(encoding="utf-8"), nl=False)
    elif not quiet:
        click.echo((folder / "profile.txt").read_text(encoding="utf-8"), nl=False)
        click.echo(f"Report: {folder / 'profile.html'}")
    return exit_codes.OK
