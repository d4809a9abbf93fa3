"""The input of verdicts: a run, its valid trials, and their loads."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jissoku.inference.block_durations import BlockDurations
from jissoku.inference.looks import Looks
from jissoku.inference.neighbours import Neighbours, neighbours
from jissoku.inference.ratio_samples import RatioSamples, choose_rotations
from jissoku.inference.valid_trials import ValidTrials
from jissoku.model import (
    FULL_LOAD,
    EvidenceSource,
    Load,
    LoadLevel,
    Method,
    Metric,
    Run,
    Trial,
    TrialKind,
    Verdict,
)

# The trials that a ratio's values come from.
KINDS = {
    EvidenceSource.TIME_SLICED: TrialKind.TIME_SLICED,
    EvidenceSource.PAIRED: TrialKind.PAIRED,
    EvidenceSource.TWO_PAIRED: TrialKind.PAIRED,
    EvidenceSource.SINGLE: TrialKind.FIXED_RATE,
}


@dataclass(frozen=True, slots=True)
class ComparisonInput:
    """The input of comparisons.

    Attributes:
        excluded_arms: Arms without a verdict, each with its status and the reason.
        loads: The loads at which arms are compared, lightest first.
        observed_noise: Ratio minus one by which equal arms are shown to differ in this run.
        durations: How long its blocks took.
    """

    run: Run
    valid_trials: ValidTrials
    excluded_arms: Mapping[str, tuple[Verdict, str]]
    loads: tuple[Load, ...]
    observed_noise: Mapping[Metric, float] = field(default_factory=dict)
    durations: BlockDurations = field(default_factory=BlockDurations)
    _at: dict[Load, ValidTrials] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _calm_at: dict[Load, ValidTrials] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def main(self) -> ValidTrials:
        """Without cross-check trials.

        These are trials with slices of the other length, and in a run of paired trials all
        time-sliced trials.
        """
        if self.run.method is Method.PAIRED:
            return self.valid_trials.only(lambda trial: trial.kind is not TrialKind.TIME_SLICED)
        return self.valid_trials.with_slice_length(self.run.slice_ns)

    def at(self, load: Load) -> ValidTrials:
        """The trials at one load, by the run's method; selected once."""
        if load not in self._at:
            self._at[load] = self.main.at(load)
        return self._at[load]

    def cost_ratios(self, load: Load, arm: str, against: str) -> RatioSamples:
        """The log ratios by which the costs of two arms at one load are compared, everywhere."""
        if load not in self._calm_at:
            self._calm_at[load] = self.at(load).calm()
        return choose_rotations(self.at(load), self._calm_at[load], (arm, against), self.looks)

    @property
    def looks(self) -> Looks:
        return Looks(self.run.horizon or 0)

    def noise(self, metric: Metric) -> float:
        """The least ratio minus one that matters: a smaller one is found between equal arms.

        The noise floor of a machine is known of costs; no other metric is measured more precisely.
        """
        return max(self.run.noise_floor or 0.0, self.observed_noise.get(metric, 0.0))

    def block_s(self, source: EvidenceSource, load: Load) -> float | None:
        """How long a block of trials from this source takes where this load is measured."""
        kind = KINDS[source]
        if kind is TrialKind.FIXED_RATE and load.rate_rps is None:
            kind = TrialKind.CLOSED_LOOP
        return self.durations.seconds({kind}, load.rate_rps)

    def search_s(self) -> float | None:
        """How long a block of capacity searches takes, with what is measured on their starts."""
        kinds = {TrialKind.CAPACITY, TrialKind.CLOSED_LOOP}
        return self.durations.longest_s(TrialKind.CAPACITY, kinds)

    def neighbours_at(self, load: Load) -> Neighbours:
        """What ran beside the trials at one load."""
        return neighbours(self.at(load).trials)


def loads_of(run: Run, trials: tuple[Trial, ...]) -> tuple[Load, ...]:
    """The run's loads; of a record without any, the rates of its trials with several arms."""
    if run.loads:
        return run.loads
    paired = [t for t in trials if t.kind.is_paired] or [t for t in trials if t.kind.is_cost]
    rates = {trial.load_rps for trial in paired}
    paced = sorted(rate for rate in rates if rate is not None)
    known = tuple(Load(rate_rps=rate, level=LoadLevel.GIVEN) for rate in paced)
    return known + ((FULL_LOAD,) if None in rates else ())
