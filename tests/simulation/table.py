"""The table in the documents."""

import re
from collections.abc import Sequence

from tests.simulation.counts import Counts
from tests.simulation.scenarios import Scenario

BEGIN, END = "<!-- simulation -->", "<!-- /simulation -->"
HEAD = ("simulated", "noise and truth", "campaigns", "what is counted", "share", "allowed")


def rows(scenarios: Sequence[Scenario], counts: Counts) -> list[tuple[str, ...]]:
    """One for each thing that is counted; a scenario is named in its first row."""
    found: list[tuple[str, ...]] = []
    for scenario in scenarios:
        count = counts[scenario.key]
        for place, (name, bound) in enumerate(scenario.bounds.items()):
            named = (scenario.name, scenario.setting, f"{count.campaigns:,}")
            columns = named if place == 0 else ("", "", "")
            found.append((*columns, name, f"{count.share(name):.3f}", bound.text))
    return found


def text(scenarios: Sequence[Scenario], counts: Counts) -> str:
    """In Markdown."""
    lines = [HEAD, tuple(":--" for _ in HEAD), *rows(scenarios, counts)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def quoted(document: str) -> list[tuple[str, ...]]:
    """The rows that a document quotes, without the head."""
    between = document.partition(BEGIN)[2].partition(END)[0]
    lines = [line for line in between.splitlines() if line.startswith("|")]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines[2:]]


def replaced(document: str, table: str) -> str:
    """The document with this table between its markers."""
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    return pattern.sub(lambda _: f"{BEGIN}\n{table}{END}", document)
