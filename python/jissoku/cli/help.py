"""Help: the options of a command in two sizes, and `jissoku help`, what the words of a report mean.

`--help` prints the common options of a command, `--help-all` all of them, both in groups.
"""

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import click

from jissoku.cli.frame import ExitCode
from jissoku.errors import InputError

# Headings, and the names of the common and of the other options below each.
Groups = Mapping[str, Sequence[list[str]]]


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("jissoku.cli").joinpath(name).read_text(encoding="utf-8"))


COMMANDS = _read("commands.toml")
GROUPS: dict[str, Groups] = COMMANDS["groups"]

# Of a context whose help is to show all options.
SHOWS_ALL = "jissoku.shows_all"


class Grouped(click.Command):
    """A command whose `--help` prints the common options, and `--help-all` all, both in groups."""

    def __init__(self, *arguments: Any, groups: Groups, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.groups = groups

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        help_all = click.Option(
            ["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=print_all,
            help="Show all options and exit.",
        )
        return [*super().get_params(ctx), help_all]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options of each group; those of no group come last."""
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        records = {str(option.name): option.get_help_record(ctx) for option in options}
        grouped = {name for common, others in self.groups.values() for name in common + others}
        rest = [name for name in records if name not in grouped]
        for heading, (common, others) in {**self.groups, "Help": (rest, [])}.items():
            names = common + others if ctx.meta.get(SHOWS_ALL) else common
            if rows := [record for name in names if (record := records[name])]:
                with formatter.section(heading):
                    formatter.write_dl(rows)


def print_all(ctx: click.Context, option: click.Parameter, value: object) -> None:
    del option
    if value:
        ctx.meta[SHOWS_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


@click.command("help")
@click.argument("topic", required=False)
def help(topic: str | None) -> int:  # noqa: A001 - named as its command
    """Explain a word of the reports, such as floor or inconclusive; without TOPIC, list them.

    Options of a command are in its own help: `jissoku compare --help`.
    """
    topics = _read("topics.toml")
    if topic is None:
        width = max(map(len, topics))
        for name, found in topics.items():
            click.echo(f"  {name.ljust(width)}  {found['title']}")
        return ExitCode.OK
    name = topic.lower().replace(" ", "-").replace("_", "-")
    if name not in topics:
        near = difflib.get_close_matches(name, topics, n=1)
        instead = f"did you mean {near[0]}?" if near else "there are " + ", ".join(topics)
        raise InputError(f"no such topic: {topic!r}; {instead}")
    click.echo(f"{topics[name]['title']}\n\n{topics[name]['text'].strip()}")
    return ExitCode.OK
