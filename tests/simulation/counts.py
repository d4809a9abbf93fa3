"""The counts so far, by scenario; they can be stored in a file and continued."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.simulation.scenarios import Scenario


@dataclass(slots=True)
class Count:
    """One scenario's.

    Attributes:
        seen: By what is counted: (how often, of how many).
    """

    campaigns: int = 0
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, scenario: Scenario) -> None:
        """Simulates the next campaign."""
        for name, (hits, of) in scenario.simulate(scenario.random(self.campaigns)).items():
            known = self.seen.get(name, (0, 0))
            self.seen[name] = (known[0] + int(hits), known[1] + of)
        self.campaigns += 1

    def share(self, name: str) -> float:
        """How often something was so."""
        hits, of = self.seen[name]
        return hits / of if of else 0.0


Counts = dict[str, Count]


def simulated(scenario: Scenario, campaigns: int) -> Count:
    """The first `campaigns` campaigns of a scenario."""
    count = Count()
    for _ in range(campaigns):
        count.add(scenario)
    return count


def outside(scenario: Scenario, count: Count) -> list[str]:
    """Rates outside of their bounds, beyond the tolerance of so few campaigns."""
    return [
        f"{scenario.key}: {name} {count.share(name):.3f}, not {bound.text}"
        for name, bound in scenario.bounds.items()
        if not bound.allows(count.share(name), count.campaigns)
    ]


def read(path: Path) -> Counts:
    """The counts of an earlier run; empty without a file."""
    if not path.exists():
        return {}
    known = json.loads(path.read_text())
    return {
        key: Count(one["campaigns"], {name: tuple(pair) for name, pair in one["seen"].items()})
        for key, one in known.items()
    }


def write(path: Path, counts: Counts) -> None:
    """Keeps it for another run to continue."""
    known = {
        key: {"campaigns": one.campaigns, "seen": one.seen} for key, one in sorted(counts.items())
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(known, indent=1) + "\n")


def left(scenarios: Iterable[Scenario], counts: Counts) -> list[Scenario]:
    """Those that have not all of their campaigns."""
    return [one for one in scenarios if counts.get(one.key, Count()).campaigns < one.long]
