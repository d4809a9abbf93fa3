"""Help in two sizes: the common options of a command, and all of them, both in groups."""

from collections.abc import Mapping
from typing import Any

import click

# Headings, and the names of the common and of the other options below each.
Groups = Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]

# Of a context whose help is to show all options.
SHOWS_ALL = "jissoku.shows_all"


class Grouped(click.Command):
    """A command whose `--help` prints the common options, and `--help-all` all, both in groups."""

    def __init__(self, *arguments: Any, groups: Groups, **named: Any) -> None:
        """As of any command, with the groups of its options."""
        super().__init__(*arguments, **named)
        self.groups = groups

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Its options, and the one that prints all of them."""
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
        rest = tuple(name for name in records if name not in grouped)
        for heading, (common, others) in {**self.groups, "Help": (rest, ())}.items():
            names = common + others if ctx.meta.get(SHOWS_ALL) else common
            if rows := [record for name in names if (record := records[name])]:
                with formatter.section(heading):
                    formatter.write_dl(rows)


def print_all(ctx: click.Context, option: click.Parameter, value: object) -> None:
    """Prints the help with all options, if that is asked for."""
    del option
    if value:
        ctx.meta[SHOWS_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()
