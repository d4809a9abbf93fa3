"""The README: commands print what it shows, figures are those of their source, words are plain."""

import re
from pathlib import Path

import pytest

from tests.document_outputs import (
    DOCUMENTS,
    MEASURED,
    README,
    ROOT,
    blocks,
    matched,
    output_of,
    verb,
)
from tests.simulation import table

TEXT = README.read_text()
# Words of the glossary with a plain meaning that the README uses.
PLAIN = {"load", "run", "cost", "check", "record", "limitations", "claim", "load generator"}


def test_it_shows_each_of_the_five_things() -> None:
    assert [verb(command) for command, _ in blocks(README)] == [
        "compare",
        "explain",
        "load",
        "serve",
        "serve",
    ]
    assert all(0 < len(lines) <= 6 for _, lines in blocks(README))


@pytest.mark.race
@pytest.mark.parametrize(
    ("name", "command"),
    [
        (name, command)
        for name, document in DOCUMENTS.items()
        for command, _ in blocks(document)
        if verb(command) not in MEASURED
    ],
)
def test_a_command_prints_what_it_shows(name: str, command: str, tmp_path: Path) -> None:
    """`python -m tests.document_outputs` writes it again."""
    lines = dict(blocks(DOCUMENTS[name]))[command]
    output = output_of(DOCUMENTS[name], command, tmp_path)
    lost = [
        line for line, found in zip(lines, matched(lines, output), strict=True) if found is None
    ]
    assert not lost, f"not in {output}"


def share(simulated: str, counted: str) -> float:
    """A share of docs/ERROR-RATES.md: the first of the simulation with this name."""
    rows = table.quoted((ROOT / "docs" / "ERROR-RATES.md").read_text())
    return next(float(row[4]) for row in rows if (row[0], row[3]) == (simulated, counted))


def test_its_error_rates_are_those_of_the_simulations() -> None:
    wrong = share("two equal arms, quick", "verdict: different")
    assert f"called different in {wrong:.1%} of 2,000".replace("%", " %") in TEXT
    unlike = "unlike arms, until decided"
    decided = f"{share(unlike, 'decided'):.1%} were distinguished in 1,000".replace("%", " %")
    assert decided in TEXT
    assert f"{share(unlike, 'wrong sign'):.1%} in the wrong".replace("%", " %") in TEXT


def test_it_needs_no_glossary() -> None:
    glossary = (ROOT / "docs" / "GLOSSARY.md").read_text()
    terms = set(re.findall(r"^\| ([^|]+) \|", glossary, re.MULTILINE)) - {"term", ":--", "---"}
    written = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", " ", TEXT, flags=re.DOTALL)
    used = {term for term in terms if re.search(rf"\b{re.escape(term)}s?\b", written)}
    assert used <= PLAIN, used - PLAIN


def test_the_commands_that_set_it_up_are_first() -> None:
    first = re.findall(r"^    (make \w+)", TEXT, re.MULTILINE)
    assert first == ["make race", "make ui"]
    assert TEXT.index(first[0]) < TEXT.index("## ")
