"""Counts how often the intervals and verdicts over machines are right, where the truth is known.

    python -m tests.machines_study [CAMPAIGNS]

Each machine's ratio is mu + tau z, and is measured in blocks of their own spread. Machines with
nine and with forty blocks alternate; `early` machines end when their difference is proven.
"""

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from jissoku.inference import decision, estimate
from jissoku.inference.decision import Rule
from jissoku.inference.estimate import Looks
from jissoku.inference.machines import compare_machines, settle
from jissoku.model import Comparison, EvidenceSource, Load, LoadLevel
from jissoku.model.machines import MachineRatio, MachinesVerdict

CAMPAIGNS = 2000
BAND = 0.02
KEY = ("b", "a", LoadLevel.MEDIUM)
LOAD = Load(rate_rps=20_000, level=LoadLevel.MEDIUM)
HORIZON = 9

DIFFERENT = {
    MachinesVerdict.LOWER_ON_ALL,
    MachinesVerdict.LOWER_ON_AVERAGE,
    MachinesVerdict.HIGHER_ON_AVERAGE,
    MachinesVerdict.HIGHER_ON_ALL,
}


def machine_ratio(
    number: int, mean: float, error: float, blocks: int, looks: Looks | None = None
) -> MachineRatio:
    """A machine whose own verdict is by Student's t alone."""
    looks = looks or Looks()
    rule = Rule(minimum_effect=BAND, looks=looks)
    spread = estimate.Spread(error * math.sqrt(blocks), blocks - 1)
    wide, narrow = (rule.interval(mean, spread, blocks, share) for share in (0.95, 0.90))
    p_value = looks.p_of(abs(mean) / error, blocks, blocks - 1)
    verdict = decision.classify(wide, narrow, BAND)
    own = Comparison(
        arm=KEY[0],
        against=KEY[1],
        verdict=verdict,
        load=LOAD,
        source=EvidenceSource.TIME_SLICED,
        minimum_effect=BAND,
        p_value=p_value,
        p_holm=p_value,
        proven=verdict.is_difference and p_value <= 0.05,
        ratio=estimate.as_ratio(wide, [mean - error, mean + error]),
    )
    return MachineRatio(
        machine=number, mean=mean, error=error, freedom=blocks - 1, blocks=blocks, own=own
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`machines` with a standard deviation `tau` between them; `spread` is that of a block."""

    machines: int
    tau: float
    mean: float = 0.0
    spread: float = 0.02
    is_early: bool = False

    def __str__(self) -> str:
        early = " early" if self.is_early else ""
        return f"k={self.machines} tau={self.tau:g} mean={self.mean:g} sd={self.spread:g}{early}"


SCENARIOS = (
    Scenario(machines=5, tau=0.01),
    Scenario(machines=10, tau=0.0, mean=0.03),
    *(
        Scenario(machines=machines, tau=tau)
        for machines in (3, 5, 8, 10, 20)
        for tau in (0.0, 0.003, 0.01, 0.03)
    ),
    *(
        Scenario(machines=machines, tau=tau, mean=mean, is_early=True, spread=0.05)
        for machines in (3, 5, 10, 20)
        for tau in (0.0, 0.01, 0.03)
        for mean in (0.03, 0.1)
    ),
)


def campaign(scenario: Scenario, rng: np.random.Generator) -> Iterator[MachineRatio]:
    looks = Looks(HORIZON) if scenario.is_early else Looks()
    for number in range(1, scenario.machines + 1):
        true = scenario.mean + scenario.tau * rng.standard_normal()
        count = HORIZON if scenario.is_early or number % 2 else 40
        logs = true + scenario.spread * rng.standard_normal(count)
        if scenario.is_early:
            logs = logs[: _until_proven(logs, looks)]
        mean, spread = estimate.mean_and_sd(logs)
        blocks = len(logs)
        yield machine_ratio(number, mean, spread / math.sqrt(blocks), blocks, looks)


def _until_proven(logs: np.ndarray, looks: Looks) -> int:
    for blocks in range(looks.first, len(logs)):
        mean, spread = estimate.mean_and_sd(logs[:blocks])
        found = looks.interval(mean, estimate.Spread(spread, blocks - 1), blocks)
        if found.low > 0 or found.high < 0:
            return blocks
    return len(logs)


@dataclass(slots=True)
class Counts:
    """How often it was right, of all campaigns of a scenario."""

    scenario: Scenario
    covered: int = 0
    next_covered: int = 0
    false: int = 0
    depends: int = 0
    verdicts: dict[MachinesVerdict, int] = field(default_factory=dict)

    def outside(self, campaigns: int) -> list[str]:
        """The goals that are missed by more than chance gives (three standard errors)."""
        one, found = self.scenario, []
        room = 3 * math.sqrt(0.05 * 0.95 / campaigns)
        if one.is_early:
            return []  # It is the reason why no comparison of several machines ends early.
        if self.covered < (0.95 - 0.01 - room) * campaigns:
            found.append(f"{one}: the mean is covered in {self.covered / campaigns:.1%}")
        if one.machines >= 8 and self.next_covered < (0.90 - room) * campaigns:
            found.append(f"{one}: a further machine in {self.next_covered / campaigns:.1%}")
        if one.mean == 0 and self.false > (0.05 + room) * campaigns:
            found.append(f"{one}: false differences in {self.false / campaigns:.1%}")
        if one.tau == 0 and self.depends > (0.05 + room) * campaigns:
            found.append(f"{one}: false dependences in {self.depends / campaigns:.1%}")
        return found


def counted(scenario: Scenario, campaigns: int, seed: int) -> Counts:
    rng, counts = np.random.default_rng(seed), Counts(scenario)
    for _ in range(campaigns):
        ratios = list(campaign(scenario, rng))
        (found,) = settle([compare_machines(KEY, ratios, (), scenario.machines)])
        assert found.ratio is not None
        low, high = math.log(found.ratio.low), math.log(found.ratio.high)
        counts.covered += low <= scenario.mean <= high
        if (ahead := found.next_machine) is not None:
            further = math.exp(scenario.mean + scenario.tau * rng.standard_normal())
            counts.next_covered += ahead.low <= further <= ahead.high
        counts.false += found.verdict in DIFFERENT
        counts.depends += found.verdict is MachinesVerdict.DEPENDS
        counts.verdicts[found.verdict] = counts.verdicts.get(found.verdict, 0) + 1
    return counts


def main() -> int:
    campaigns = int(sys.argv[1]) if len(sys.argv) > 1 else CAMPAIGNS
    print("| machines | tau | mean | mean covered | next covered | differences | depends |")  # noqa: T201
    missed = []
    for number, scenario in enumerate(dict.fromkeys(SCENARIOS)):
        found = counted(scenario, campaigns, seed=number)
        missed += found.outside(campaigns)
        early = ", early" if scenario.is_early else ""
        shares = (found.covered, found.next_covered, found.false, found.depends)
        cells = " | ".join(f"{share / campaigns:.1%}" for share in shares)
        print(  # noqa: T201
            f"| {scenario.machines} | {scenario.tau:.1%} | {scenario.mean:.0%}{early} | {cells} |"
        )
    for text in missed:
        print(f"outside: {text}")  # noqa: T201
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
