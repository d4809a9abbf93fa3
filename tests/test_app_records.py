"""How application servers call an application, kept in records/apps: the table is made of it.

`python -m tests.test_app_records` rewrites the table of records/apps/README.md; with
`--measure [NAME...]` it first runs the cases against these servers, or against all of the groups
wsgi and asgi.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from jissoku.targets import catalogue
from tests import conformance_record
from tests.conformance_record import Json
from tests.records_table import fill, table_of

FOLDER = Path(__file__).parent.parent / "records" / "apps"
README = FOLDER / "README.md"
GROUPS = ("wsgi", "asgi")


def test_the_table_is_made_of_the_records() -> None:
    for group in GROUPS:
        assert fill(README, group, table(group)) == README.read_text("utf-8")


def test_ours_passes_every_case() -> None:
    for name in ("jissoku-wsgi", "jissoku-asgi"):
        assert [case for case in _read(name)["cases"] if case["wrong"]] == []


def table(group: str) -> str:
    """A row for each server: how many cases it passes, and how many for each clause it does not."""
    found = [_read(name) for name in _names(group) if (FOLDER / f"{name}.json").exists()]
    found.sort(key=lambda one: (sum(bool(case["wrong"]) for case in one["cases"]), one["target"]))
    rows = [[one["target"], one["version"], *_counts(one["cases"])] for one in found]
    return table_of(["server", "version", "cases", "pass", "do not"], rows)


def _counts(cases: Sequence[Json]) -> list[str]:
    wrong = sum(bool(case["wrong"]) for case in cases)
    return [str(len(cases)), str(len(cases) - wrong), str(wrong)]


def _names(group: str) -> list[str]:
    recipes = catalogue.recipes()
    return sorted(name for name, recipe in recipes.items() if group in recipe.groups)


def _read(name: str) -> Json:
    return conformance_record.read(FOLDER / f"{name}.json")


def _measure(names: Sequence[str]) -> None:
    for name in names or [name for group in GROUPS for name in _names(group)]:
        conformance_record.measure(["--apps", name], FOLDER / f"{name}.json")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        _measure(sys.argv[2:])
    for part in GROUPS:
        README.write_text(fill(README, part, table(part)), "utf-8")
