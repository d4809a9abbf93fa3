"""The target and the configuration of a tuning."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jissoku.design.sampling_plan import SamplingPlan
from jissoku.design.variants import Combination
from jissoku.measure.compare_config import CompareConfig
from jissoku.measure.trial_runner import PreparedArm
from jissoku.model import CoreAssignment, Knob, Load, Method, Mode, Workload
from jissoku.request import AnyRequest
from jissoku.targets.prepare import PreparedTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningTarget:
    """The target of a tuning, and its knobs.

    Attributes:
        name: Description for the report.
        knobs: The knobs to test.
        skipped: Knobs that are not tested, each with the reason.
        prepared: Prepares the target with these knobs switched.
        diff: The change from the unchanged configuration to one with these knobs switched.
    """

    name: str
    knobs: tuple[Knob, ...]
    prepared: Callable[[tuple[str, ...]], PreparedTarget]
    diff: Callable[[tuple[str, ...]], str]
    skipped: dict[str, str] = field(default_factory=dict)
    sandbox: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningConfig:
    """Configuration of a tuning; the fields are those of a comparison's.

    Attributes:
        loads: The loads of comparisons; if empty, the first campaign chooses one.
    """

    workload: Workload
    mode: Mode
    plan: SamplingPlan
    seed: int
    cores: CoreAssignment
    folder: Path
    version: str
    request: AnyRequest | None = None
    loads: tuple[Load, ...] = ()
    noise_floors: Mapping[Method, float] = field(default_factory=dict)

    def compare_config(
        self, name: str, target: TuningTarget, combinations: Sequence[Combination]
    ) -> CompareConfig:
        """A campaign of these combinations, with its records in a folder of this name."""
        return CompareConfig(
            arms_prepared=tuple(_prepared_arm(target, one) for one in combinations),
            floor=None,
            unavailable=(),
            workload=self.workload,
            mode=self.mode,
            plan=self.plan,
            seed=self.seed,
            cores=self.cores,
            folder=self.folder / name,
            version=self.version,
            loads=self.loads,
            one_load=True,
            noise_floors=self.noise_floors,
            verb="tune",
            request=self.request,
        )


def _prepared_arm(target: TuningTarget, combination: Combination) -> PreparedArm:
    prepared = target.prepared(combination.knobs)
    return PreparedArm(prepared.arm(combination.name), prepared)
