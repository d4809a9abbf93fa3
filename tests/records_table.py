"""Tables in Markdown between two marks, which tests compare with the records they are made of."""

from collections.abc import Sequence
from pathlib import Path


def table_of(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table, with its last line break."""
    first, *others = (f"| {' | '.join(line)} |\n" for line in (head, *rows))
    return "".join((first, "|---" * len(head) + "|\n", *others))


def fill(path: Path, part: str, text: str) -> str:
    """The file with `text` between `<!-- part -->` and `<!-- /part -->`."""
    begin, end = f"<!-- {part} -->\n", f"<!-- /{part} -->\n"
    before, _, rest = path.read_text("utf-8").partition(begin)
    _, mark, after = rest.partition(end)
    assert mark, f"{path.name} has no {begin.strip()} with an end"
    return before + begin + text + end + after
