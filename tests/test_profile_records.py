"""Profiles kept in records/profiles: what was learned is what they say, and the study's bounds.

`python -m tests.test_profile_records` writes the tables of records/profiles/README.md.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from jissoku import records
from jissoku.inference.profile import difference, summarise
from jissoku.model.profile import DifferenceRow, ProfileDifference
from jissoku.records.files import opened
from tests.profile_study import table
from tests.profile_study.all_checks import CHECKS
from tests.profile_study.checks import Kept

FOLDER = Path(__file__).parent.parent / "records" / "profiles"
README = FOLDER / "README.md"
PAIRS = sorted(path.parent.name for path in FOLDER.glob("*/profiles.jsonl*"))
STUDY = Kept.read(FOLDER / "study.jsonl")

# Rows of a table; the rest is summed up.
PARTS = 8
FUNCTIONS = 10


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_the_table_of_a_pair_is_made_of_its_record(name: str) -> None:
    assert _between(name) == pair(name)


def test_the_table_of_the_study_is_made_of_its_runs() -> None:
    assert _between("study") == table.text(CHECKS, STUDY)


def test_records_of_profiles_name_no_folder_of_a_machine() -> None:
    for name in PAIRS:
        with opened(FOLDER / name / "profiles.jsonl") as file:
            text = file.read().decode()
        assert not any(f'"/{folder}/' in text for folder in ("home", "root", "tmp", "work"))


def pair(name: str) -> str:
    """Where the difference of two servers comes from, in the kernel and outside."""
    change = _difference(name)
    first, second = change.first.profile, change.second.profile
    rate = first.workload.rate_rps or 0
    head = f"µs per request at {rate:,}/s"
    lines = [
        f"| {head} | {first.target} | {second.target} | difference | 95 % interval |",
        "|:--|--:|--:|--:|--:|",
        _row("**all**", (change.first.total_ns, change.second.total_ns), change.difference_ns),
        *(_row(row.name, row.ns, row.difference_ns, row) for row in change.parts[:PARTS]),
        *_functions(change),
    ]
    return "\n".join(lines) + "\n"


def _functions(change: ProfileDifference) -> Iterator[str]:
    """Functions in user space and in the kernel whose difference is certain."""
    certain = [row for row in change.functions if row.is_certain][:FUNCTIONS]
    for row in certain:
        yield _row(f"`{row.name}` ({row.place})", row.ns, row.difference_ns, row)


def _row(
    name: str, ns: tuple[float, float], difference_ns: float, row: DifferenceRow | None = None
) -> str:
    interval = f"{row.low_ns / 1e3:+.2f} to {row.high_ns / 1e3:+.2f}" if row else ""
    figures = " | ".join(f"{value / 1e3:.2f}" for value in ns)
    return f"| {name} | {figures} | {difference_ns / 1e3:+.2f} | {interval} |"


@cache
def _difference(name: str) -> ProfileDifference:
    first, second = records.read_profiles(FOLDER / name)
    return difference(summarise(first), summarise(second))


def _between(name: str) -> str:
    text = README.read_text(encoding="utf-8")
    _, _, rest = text.partition(f"<!-- {name} -->\n")
    return rest.partition(f"<!-- /{name} -->\n")[0]


def _write(name: str, new: str) -> None:
    """Replaces a table; one that is not there yet comes last."""
    text = README.read_text(encoding="utf-8")
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
    if begin not in text:
        text += f"\n{begin}{end}"
    before, _, rest = text.partition(begin)
    README.write_text(before + begin + new + end + rest.partition(end)[2], encoding="utf-8")


if __name__ == "__main__":
    for kept in PAIRS:
        _write(kept, pair(kept))
    _write("study", table.text(CHECKS, STUDY))
