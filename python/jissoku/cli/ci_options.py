"""Files that `jissoku compare` writes for continuous integration."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from jissoku.report.exports import FORMATS
from jissoku.request.param_types import Written

File = click.Path(dir_okay=False, path_type=Path)


def read_export(text: str) -> tuple[str, Path]:
    """A format and a file: `junit=bounds.xml`.

    Raises:
        ValueError: It is no such pair.
    """
    name, equals, file = text.partition("=")
    if not equals or not file or name not in FORMATS:
        raise ValueError(f"{text!r}: write FORMAT=FILE; formats are {', '.join(FORMATS)}")
    return name, Path(file)


OPTIONS = (
    click.option("--comment", type=File, help="Write the result as a pull request's comment."),
    click.option(
        "--step-summary",
        type=File,
        envvar="GITHUB_STEP_SUMMARY",
        help="Append the result to this Markdown file. Default: $GITHUB_STEP_SUMMARY.",
    ),
    click.option(
        "--export",
        "export_as",
        multiple=True,
        type=Written("export", read_export),
        metavar="FORMAT=FILE",
        help=f"Write results for another tool: {', '.join(FORMATS)}; repeatable.",
    ),
)


def ci_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds all of them, in this order."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command
