"""Tables and text in Markdown (GitHub's), for experiments and for comments on pull requests."""

import re
from collections.abc import Iterator

from jissoku.report.tables import Table

# Characters that could begin markup inside a line; they are escaped by a backslash.
SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~!&$@])")


def escape(text: str) -> str:
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))


def table_lines(table: Table) -> Iterator[str]:
    """A table in GitHub's syntax, followed by an empty line."""
    yield _row(table.header)
    yield _row([":--", *["--:"] * (len(table.header) - 1)], plain=True)
    yield from (_row(row) for row in table.rows)
    yield ""


def _row(cells: tuple[str, ...] | list[str], *, plain: bool = False) -> str:
    shown = cells if plain else [escape(cell) for cell in cells]
    return f"| {' | '.join(shown)} |"
