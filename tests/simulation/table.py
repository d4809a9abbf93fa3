"""The tables in the documents: one for each kind of campaign, with a column for what is counted."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from tests.simulation.counts import Counts
from tests.simulation.scenarios import Scenario

BEGIN, END = "<!-- simulation -->", "<!-- /simulation -->"

# Name and setting of a scenario, campaigns, what is counted, its share, and what is allowed.
Row = tuple[str, str, str, str, str, str]
ALLOWED = re.compile(r" \(([^()]*)\)$")


def rows(scenarios: Sequence[Scenario], counts: Counts) -> list[Row]:
    """One for each thing that is counted."""
    return [
        (
            scenario.name,
            scenario.setting,
            f"{counts[scenario.key].campaigns:,}",
            name,
            f"{counts[scenario.key].share(name):.3f}",
            bound.text,
        )
        for scenario in scenarios
        for name, bound in scenario.bounds.items()
    ]


def text(scenarios: Sequence[Scenario], counts: Counts) -> str:
    """In Markdown."""
    groups = groupby(rows(scenarios, counts), key=lambda row: row[0])
    return "\n".join("".join(lines(name, list(members))) for name, members in groups)


def lines(name: str, members: Sequence[Row]) -> Iterator[str]:
    """The table of one name; what is allowed is in the head where it is the same for all."""
    allowed: dict[str, set[str]] = {}
    for *_, counted, _, bound in members:
        allowed.setdefault(counted, set()).add(bound)
    shared = {counted: f" ({min(one)})" for counted, one in allowed.items() if len(one) == 1}
    yield line([name, "campaigns", *(counted + shared.get(counted, "") for counted in allowed)])
    yield f"|{'---|' * (2 + len(allowed))}\n"
    for (setting, campaigns), counts in groupby(members, key=lambda row: row[1:3]):
        cells = {
            counted: share if counted in shared else f"{share} ({bound})"
            for *_, counted, share, bound in counts
        }
        yield line([setting, campaigns, *(cells.get(counted, "") for counted in allowed)])


def line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def quoted(document: str) -> list[Row]:
    """The rows that a document quotes."""
    between = document.partition(BEGIN)[2].partition(END)[0]
    found: list[Row] = []
    for part in between.strip().split("\n\n"):
        (name, _, *heads), _, *rest = [
            [cell.strip() for cell in text.strip("|").split("|")] for text in part.splitlines()
        ]
        for setting, campaigns, *cells in rest:
            for head, cell in zip(heads, cells, strict=True):
                bound = ALLOWED.search(cell) or ALLOWED.search(head)
                if cell and bound:
                    counted, share = ALLOWED.sub("", head), ALLOWED.sub("", cell)
                    found.append((name, setting, campaigns, counted, share, bound[1]))
    return found


def replaced(document: str, table: str) -> str:
    """The document with these tables between its markers."""
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    return pattern.sub(lambda _: f"{BEGIN}\n{table}{END}", document)
