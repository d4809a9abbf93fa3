"""What profiles are held to: checks, each of several runs, and what was kept of them."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# What a run found: numbers, names and truth values.
Found = Mapping[str, float | str | bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A property that profiles have to have.

    Attributes:
        group: Checks of one group share a table.
        name: Of the row in the table.
        runs: How many are needed.
        seconds: How long a run takes, about.
        measure: Runs it once, by seed and in an empty folder.
        summary: What its runs found, in words.
        bound: What is required, in words.
        passed: Whether a run is as it has to be; None if runs are judged together only.
        together: Whether all runs are, where one alone says nothing.
    """

    group: str
    name: str
    runs: int
    seconds: float
    measure: Callable[[int, Path], Found]
    summary: Callable[[Sequence[Found]], str]
    bound: str
    passed: Callable[[Found], bool] | None = None
    together: Callable[[Sequence[Found]], bool] = bool

    @property
    def key(self) -> str:
        return f"{self.group}: {self.name}"


@dataclass(slots=True)
class Kept:
    """The runs of all checks, in a file of one line each that grows."""

    file: Path
    found: dict[str, list[Found]] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> "Kept":
        """What is there; nothing without a file."""
        kept = cls(file)
        for line in file.read_text().splitlines() if file.exists() else []:
            run = json.loads(line)
            kept.found.setdefault(run["check"], []).append(run["found"])
        return kept

    def of(self, check: Check) -> list[Found]:
        """The runs of a check."""
        return self.found.get(check.key, [])

    def add(self, check: Check, found: Found) -> None:
        """Keeps a run."""
        self.found.setdefault(check.key, []).append(found)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a") as file:
            file.write(json.dumps({"check": check.key, "found": found}) + "\n")


def missing(check: Check, kept: Kept) -> int:
    """How many runs a check still needs."""
    return max(0, check.runs - len(kept.of(check)))


def minutes(checks: Iterable[Check], kept: Kept) -> float:
    """How long all missing runs take, about."""
    return sum(check.seconds * missing(check, kept) for check in checks) / 60
