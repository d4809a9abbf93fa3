"""`jissoku targets`: available and unavailable targets, and how to install them."""

import click
from rich.console import Console
from rich.table import Table

from jissoku.measure.selection import build_paths
from jissoku.targets import catalogue
from jissoku.targets.prepare import missing_requirement


@click.command()
@click.argument("name", required=False)
def targets(name: str | None) -> None:
    """List the targets available here, and how to install the others; with NAME, describe one."""
    known = catalogue.recipes()
    console = Console(highlight=False)
    where = build_paths()
    if name is not None:
        recipe = catalogue.get_recipe(known, name)
        console.print(f"[bold]{recipe.name}[/]  capabilities: {', '.join(recipe.capabilities)}\n")
        console.print(_flowing(recipe.description), markup=False)
        console.print(f"\nLimitations: {_flowing(recipe.limitations)}", markup=False)
        console.print(f"\nStarted as: {' '.join(recipe.start.command)}", markup=False)
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("target", "here", "capabilities", "how to install it"):
        table.add_column(heading)
    for recipe in known.values():
        lack = missing_requirement(recipe, where)
        here = "[green]yes[/]" if lack is None else f"no: {lack.reason}"
        table.add_row(
            recipe.name, here, " ".join(recipe.capabilities), lack.install_hint if lack else ""
        )
    console.print(table)


def _flowing(text: str) -> str:
    """Paragraphs without the line breaks of the file."""
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))
