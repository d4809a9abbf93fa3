"""Options of `jissoku compare` for continuous integration."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from jissoku.report.exports import FORMATS

File = click.Path(dir_okay=False, path_type=Path)


class Export(click.ParamType[tuple[str, Path]]):
    """A format and a file: `junit=bounds.xml`."""

    name = "export"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Path]:
        if isinstance(value, tuple):
            return value
        name, equals, file = str(value).partition("=")
        if not equals or not file or name not in FORMATS:
            known = ", ".join(FORMATS)
            self.fail(f"{value!r}: write FORMAT=FILE; formats are {known}", param, ctx)
        return name, Path(file)


OPTIONS = (
    click.option(
        "--baseline",
        metavar="REF|RELEASE|RUN",
        help="Compare with the same --cmd of a git ref, built in a worktree, or of a release"
        " (PACKAGE==VERSION or a wheel), in the same trials; or with the folder of an"
        " earlier run, through unchanged arms.",
    ),
    click.option(
        "--build",
        default="",
        metavar="COMMAND",
        help="Build both the working directory and the baseline with this command.",
    ),
    click.option(
        "--fail-if",
        multiple=True,
        metavar="BOUND",
        help="Exit with 3 if this is proven, such as 'cost(head) > 1.01 x cost(base)', with 4 if"
        " it is undecided; repeatable.",
    ),
    click.option(
        "--confirm",
        is_flag=True,
        help="Before exiting with 3, confirm it with a second run.",
    ),
    click.option(
        "--undecided",
        type=click.Choice(["fail", "ok"]),
        default="fail",
        show_default=True,
        help="Whether an undecided bound exits with 4 or with 0.",
    ),
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
        type=Export(),
        metavar="FORMAT=FILE",
        help=f"Write results for another tool: {', '.join(FORMATS)}; repeatable.",
    ),
)


def ci_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds all of them, in this order."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command
