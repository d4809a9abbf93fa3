"""The faults of faults.toml, and their table in docs/fleet.md: `python -m tests.fleet.faults`.

`python -m tests.fleet.faults tests` prints the tests in which they happen, for `make faults`.
"""

import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "fleet.md"
BEGIN, END = "<!-- faults -->\n", "<!-- end of faults -->\n"


@dataclass(frozen=True, slots=True)
class Fault:
    """A row: what is made to happen, and what was observed or why it cannot be made yet."""

    number: int
    fault: str
    observed: str
    missing: str
    tests: tuple[str, ...]


def _read() -> tuple[Fault, ...]:
    rows = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["fault"]
    return tuple(
        Fault(
            number=row["number"],
            fault=row["fault"],
            observed=row.get("observed", ""),
            missing=row.get("missing", ""),
            tests=tuple(row.get("tests", ())),
        )
        for row in rows
    )


FAULTS = _read()


def _table() -> str:
    lines = ["| | fault | what happens |", "|---|---|---|"]
    for one in FAULTS:
        missing = f"Not built yet: {one.missing}" if one.missing else ""
        lines.append(
            f"| {one.number} | {one.fault} | {' '.join(filter(None, (one.observed, missing)))} |"
        )
    return "\n".join(lines) + "\n"


TABLE = _table()


def between(page: str) -> str:
    """The table that a page has."""
    return page.partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    """Writes the table into the page, or prints the tests, each once."""
    if sys.argv[1:] == ["tests"]:
        tests = dict.fromkeys(test for fault in FAULTS for test in fault.tests)
        sys.stdout.write("\n".join(tests) + "\n")
        return
    text = PAGE.read_text()
    PAGE.write_text(text.replace(between(text), TABLE))


if __name__ == "__main__":
    main()
