"""`jissoku targets`: what can be raced here, what is missing, and how to get it."""

import click
from rich.console import Console
from rich.table import Table

from jissoku.cli.contestants import place
from jissoku.targets import catalogue
from jissoku.targets.prepare import missing


@click.command()
@click.argument("name", required=False)
def targets(name: str | None) -> None:
    """List the catalogue; with NAME, tell everything about one target."""
    known = catalogue.recipes()
    console = Console(highlight=False)
    where = place()
    if name is not None:
        recipe = catalogue.pick(known, name)
        console.print(f"[bold]{recipe.name}[/]  parts: {', '.join(recipe.parts)}\n")
        console.print(_flowing(recipe.essay), markup=False)
        console.print(f"\nLeaves out: {_flowing(recipe.leaves_out)}", markup=False)
        console.print(f"\nStarted as: {' '.join(recipe.start.command)}", markup=False)
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("target", "here", "parts", "how to get it"):
        table.add_column(heading)
    for recipe in known.values():
        lack = missing(recipe, where)
        here = "[green]yes[/]" if lack is None else f"no: {lack.reason}"
        table.add_row(recipe.name, here, " ".join(recipe.parts), lack.remedy if lack else "")
    console.print(table)


def _flowing(essay: str) -> str:
    """Paragraphs without the line breaks of the file; the terminal breaks them where it ends."""
    return "\n\n".join(" ".join(part.split()) for part in essay.strip().split("\n\n"))
