"""Constructed summaries that together contain everything a report can show.

Plain values, made without `stats`, because rendering does not depend on the computation.
"""

from collections.abc import Sequence
from functools import cache

from jissoku.model import (
    EvidenceSource,
    Load,
    LoadLevel,
    MeasurementStatus,
    Method,
    Metric,
    Run,
    Summary,
    UnavailableTarget,
    Verdict,
    rate_grid,
)
from jissoku.model.summary import ArmSummary, FailureSummary, ReportWarning, Severity
from jissoku.model.updated import updated
from jissoku.report.format import TIMES
from tests.inference import factories
from tests.report.factories import (
    ARMS,
    GIVEN,
    HEAVY,
    LIGHT,
    MIDDLE,
    checked,
    comparison,
    comparisons,
    estimate,
    standings,
)

HOSTILE = (
    "\x1b[31mTraceback\x1b[0m (most recent call last):\n"
    "  <script>alert('stderr')</script> | `tick` **bold** </pre>\n"
    "OSError: [Errno 98] Address already in use \udcff\x07\n"
)

GRANIAN = UnavailableTarget(
    name="granian", reason="no granian was found", install_hint="pip install granian"
)
BROKEN = FailureSummary(
    stage="load", reason="died: killed by SIGSEGV", stderr=HOSTILE, trials=(3, 9)
)


@cache
def race() -> Summary:
    """Six arms and the floor at three loads: one fails, two stop early, one pair is disputed."""
    names = ["jissoku", "nginx-tuned", "nginx", "go", "node", "tornado", "python", "floor"]
    loads = (LIGHT, MIDDLE, HEAVY)
    run = _run(
        names, floor="floor", aa_control="nginx-2", unavailable=(GRANIAN,), loads=loads,
        method=Method.TIME_SLICED, method_reason="the targets are different programs",
        slice_ns=100_000_000, check_slice_ns=20_000_000, objective="p99<10ms",
        noise_floor=0.011, minimum_effect=0.02,
    )  # fmt: skip
    pairs = tuple(map(checked, comparisons(run, loads)))
    lost = updated(
        comparison("python", "jissoku", Metric.COST, MIDDLE, None),
        verdict=Verdict.FAILED, remarks=(f"python: {BROKEN.reason}",),
        sentence=f"python compared with jissoku at {MIDDLE.text}: failed (python: {BROKEN.reason})",
    )  # fmt: skip
    return Summary(
        run=run,
        headline=(
            f"At {MIDDLE.text} jissoku uses the least CPU time per request of 6 (proven); next is"
            f" nginx-tuned with 1.21 {TIMES} [1.20, 1.23] the CPU time of jissoku; last is node"
            f" with 2.76 {TIMES} [2.67, 2.86] the CPU time of jissoku; the order changes with the"
            f" load: at {LIGHT.text} node uses less than go; python has no result."
        ),
        advice=(
            f"Least CPU time per request: jissoku at {LIGHT.text} and {HEAVY.text}.",
            f"Shortest p99 latency: jissoku at {LIGHT.text}.",
            "Highest capacity: jissoku.",
            f"node does not reach {HEAVY.text}.",
        ),
        unit="floor",
        loads=loads,
        main_load=MIDDLE,
        arm_summaries=(*standings(run, loads), _failed("python")),
        comparisons=(*pairs, lost),
        aa_control=tuple(
            updated(comparison("nginx-2", "nginx", Metric.COST, load, estimate(1.003, 0.006)),
                    verdict=Verdict.EQUAL)
            for load in loads
        ),
        warnings=(
            ReportWarning(severity=Severity.PROBLEM, title="python failed: 2 of 9 trials (load)",
                 text=BROKEN.reason, detail=HOSTILE),
            ReportWarning(severity=Severity.WARNING, title="A check disagrees: go against jissoku",
                 text="Each alone gives another ratio than the time-sliced trials."),
            ReportWarning(severity=Severity.NOTE, title="The machine disturbed 1 of 97 trials",
                 text="They give no result; most were repeated. By check: steal 1."),
            ReportWarning(severity=Severity.NOTE, title="granian is unavailable",
                 text="No granian was found. To add it: pip install granian"),
        ),
        blocks=9,
        trials_total=97,
        trials_valid=94,
        trials_rejected=1,
    )  # fmt: skip


@cache
def two() -> Summary:
    """Two like arms as a paired trial at a given rate, and the floor."""
    run = _run(
        ["nginx", "nginx-tuned", "floor"], floor="floor", loads=(GIVEN,),
        method=Method.PAIRED, method_reason="both targets run the same program",
    )  # fmt: skip
    pairs = comparisons(run, (GIVEN,), source=EvidenceSource.PAIRED)
    return Summary(
        run=run,
        headline=f"{pairs[0].sentence}.",
        unit="floor",
        loads=(GIVEN,),
        main_load=GIVEN,
        arm_summaries=standings(run, (GIVEN,), source=EvidenceSource.PAIRED),
        comparisons=pairs,
        blocks=9,
        trials_total=27,
        trials_valid=27,
    )


@cache
def every_rate() -> Summary:
    """Three arms without a floor at every rate of the grid, where only some verdicts are proven."""
    loads = tuple(
        Load(rate_rps=rate, level=level)
        for rate, level in zip(
            rate_grid(1_000, 100_000),
            (*[LoadLevel.LIGHT] * 2, *[LoadLevel.MEDIUM] * 2, *[LoadLevel.HEAVY] * 3),
            strict=True,
        )
    )
    unavailable = (
        UnavailableTarget(
            name="floor", reason="this build has no floor", install_hint="make build"
        ),
    )
    run = _run(
        ["nginx", "go", "jissoku"], unavailable=unavailable, loads=loads, method=Method.TIME_SLICED,
        slice_ns=100_000_000, minimum_effect=0.02,
    )  # fmt: skip
    return Summary(
        run=run,
        headline=f"At {loads[3].text} jissoku uses the least CPU time per request of 3 (proven).",
        unit="nginx",
        loads=loads,
        main_load=loads[3],
        arm_summaries=standings(run, loads),
        comparisons=comparisons(run, loads),
        warnings=(ReportWarning(severity=Severity.WARNING, title="The floor was not measured",
                    text="Relative cost has no unit: no target can be compared with the least"
                         " possible cost."),),
        blocks=12,
        trials_total=80,
        trials_valid=80,
    )  # fmt: skip


@cache
def nothing() -> Summary:
    """Two arms of which neither ever started."""
    run = _run(["jissoku", "python"], loads=(LIGHT, MIDDLE), method=Method.TIME_SLICED)
    reason = "ended with status 1 before it answered"
    return Summary(
        run=run,
        headline="No target has a valid result: all failed.",
        unit="",
        loads=(),
        arm_summaries=(_failed("jissoku"), _failed("python")),
        comparisons=(
            updated(comparison("python", "jissoku", Metric.COST, LIGHT, None),
                    verdict=Verdict.FAILED, remarks=(f"python: {reason}",),
                    sentence=f"python compared with jissoku: failed (python: {reason})"),
        ),
        warnings=(ReportWarning(severity=Severity.PROBLEM,
                                title="python failed: 3 of 3 trials (ready)",
                                text=reason, detail="bind: address in use"),),
        trials_total=4,
    )  # fmt: skip


@cache
def empty() -> Summary:
    """A run that was interrupted before its first trial ended."""
    run = _run(["jissoku", "nginx"], loads=(LIGHT,), method=Method.TIME_SLICED)
    standings = tuple(ArmSummary(arm=arm, status=MeasurementStatus.UNMEASURED) for arm in run.arms)
    headline = "No ranking: too few trials are valid."
    return Summary(run=run, headline=headline, unit="", arm_summaries=standings, comparisons=())


ALL = {"race": race, "two": two, "every_rate": every_rate, "nothing": nothing, "empty": empty}


def _run(names: Sequence[str], **changes: object) -> Run:
    bare = factories.run(list(names), arms=tuple(ARMS[name] for name in names))
    return updated(bare, **changes)  # type: ignore[arg-type] # each call names fields of a run


def _failed(name: str) -> ArmSummary:
    return ArmSummary(
        arm=ARMS[name],
        status=MeasurementStatus.FAILED,
        failures=(BROKEN,),
        trials_valid=0,
        trials_total=2,
    )
