"""What is tuned, and how: the values that a tuning begins with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jissoku.design.ablation import Combination
from jissoku.design.mode import Effort
from jissoku.model import Cores, Knob, Mode, Workload
from jissoku.pipeline.bench import Contestant
from jissoku.pipeline.campaign import Question
from jissoku.targets.prepare import Prepared


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is tuned.

    Attributes:
        name: In words, for the report.
        knobs: Those that are tried.
        skipped: Those that are not, each with why.
        prepared: Makes the target with these knobs switched.
        diff: Tells how to come from the configuration as it is to one with these knobs switched.
    """

    name: str
    knobs: tuple[Knob, ...]
    prepared: Callable[[tuple[str, ...]], Prepared]
    diff: Callable[[tuple[str, ...]], str]
    skipped: dict[str, str] = field(default_factory=dict)
    sandbox: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """How a tuning is run; the fields are those of a campaign's question."""

    workload: Workload
    mode: Mode
    effort: Effort
    seed: int
    cores: Cores
    folder: Path
    version: str

    def question(
        self, name: str, subject: Subject, combinations: Sequence[Combination]
    ) -> Question:
        """A campaign of these combinations, with its records in a folder of this name."""
        return Question(
            contestants=tuple(_contestant(subject, one) for one in combinations),
            floor=None,
            missing=(),
            workload=self.workload,
            mode=self.mode,
            effort=self.effort,
            seed=self.seed,
            cores=self.cores,
            folder=self.folder / name,
            version=self.version,
        )


def _contestant(subject: Subject, combination: Combination) -> Contestant:
    prepared = subject.prepared(combination.knobs)
    return Contestant(prepared.arm(combination.name), prepared)
