"""What verdicts are made from: a run, its trials that count, and the loads they ran at."""

from collections.abc import Mapping
from dataclasses import dataclass

from jissoku.model import FULL_LOAD, Load, LoadLevel, Method, Run, Trial, TrialKind, Verdict
from jissoku.stats.valid_trials import ValidTrials


@dataclass(frozen=True, slots=True)
class ComparisonInput:
    """What comparisons are made from.

    Attributes:
        excluded_arms: Arms without a verdict, each with why: (failed or invalid, a reason in
            words).
        loads: At which loads arms are compared, lightest first.
    """

    run: Run
    valid_trials: ValidTrials
    excluded_arms: Mapping[str, tuple[Verdict, str]]
    loads: tuple[Load, ...]

    @property
    def main(self) -> ValidTrials:
        """Without trials that only check how arms were measured.

        These are turns of another length, and in a run of paired trials all time-sliced trials.
        """
        if self.run.method is Method.PAIRED:
            return self.valid_trials.only(lambda trial: trial.kind is not TrialKind.TIME_SLICED)
        return self.valid_trials.with_slice_length(self.run.slice_ns)

    def at(self, load: Load) -> ValidTrials:
        """What was measured at one load, in the way that the run is about."""
        return self.main.at(load)


def loads_of(run: Run, trials: tuple[Trial, ...]) -> tuple[Load, ...]:
    """The run's loads; of a record that names none, the rates at which its arms met."""
    if run.loads:
        return run.loads
    paired = [t for t in trials if t.kind.is_paired] or [t for t in trials if t.kind.is_cost]
    rates = {trial.load_rps for trial in paired}
    paced = sorted(rate for rate in rates if rate is not None)
    known = tuple(Load(rate_rps=rate, level=LoadLevel.GIVEN) for rate in paced)
    return known + ((FULL_LOAD,) if None in rates else ())
