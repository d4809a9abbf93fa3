"""Options shared by several commands: where results go, and what is printed.

What is asked is in `jissoku.request`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

out = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for records and reports. Default: a new one under runs/.",
)
quiet = click.option("--quiet", is_flag=True, help="Print no progress.")
records = click.option(
    "--records",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory with runs; repeatable. Default: runs.",
)


def as_json(what: str) -> Callable[[Any], Any]:
    """Whether `what` is printed as JSON instead of text."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what} as JSON.")
