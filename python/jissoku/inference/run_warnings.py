"""Warnings that qualify the results of a run: what went wrong, differs, or disturbed it."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

from jissoku.inference import checks, estimate
from jissoku.inference.blocks import loads_of, log_cost, valid_trials
from jissoku.inference.checks import RATE_WARNING, is_rejected
from jissoku.inference.compare import ranked_arms
from jissoku.inference.limits import server_limits
from jissoku.inference.reach import HEADROOM, Unreached
from jissoku.inference.texts import TEXTS, said
from jissoku.model import CheckOutcome, Condition, FailedCheck, Trial, TrialKind, VerifiedResponse
from jissoku.model.run import Load, Match, Origin, Run, rate_grid
from jissoku.model.summary import (
    ArmSummary,
    Comparison,
    MeasurementStatus,
    ReportWarning,
    Severity,
    Verdict,
)
from jissoku.model.updated import updated
from jissoku.model.wording import capitalised, join_names, plural
from jissoku.request import ExplanationRequest, command_line

REJECTED_WARNING_MIN = 0.05

# A smaller part would be shown as 0 %.
ROUNDED_SHARE_MIN = 0.005

# The floor does not change, so a change of its cost is one of the machine. Both must hold, at any
# load.
DRIFT_MAX = 0.03
DRIFT_ALPHA = 0.01


def report_warnings(
    run: Run,
    trials: Sequence[Trial],
    arm_summaries: Sequence[ArmSummary],
    comparisons: Sequence[Comparison],
    aa_control: Sequence[Comparison] = (),
    *,
    is_finished: bool = True,
) -> tuple[ReportWarning, ...]:
    """All warnings, problems first; the same records give the same warnings in the same order."""
    slow = valid_trials(trials).unreached
    # A run that ended early has arms that were not started yet.
    begun = [
        one
        for one in arm_summaries
        if is_finished or one.failures or one.status is not MeasurementStatus.UNMEASURED
    ]
    found = [
        *_of_limits(run, trials, arm_summaries),
        *_of_arms(begun, trials),
        *_of_comparisons(comparisons),
        *_of_the_aa_control(aa_control),
        *_of_answers(run, trials),
        *_of_the_machine(run, tuple(trials)),
        *_of_the_condition(comparisons),
        *_of_rejections(trials),
        *_of_unreached(run, slow),
        *_of_the_time(run, trials),
        *_of_warnings(trials, slow),
        *_of_rates(arm_summaries),
        *_of_the_run(run, arm_summaries, slow),
    ]
    return tuple(sorted(found, key=lambda warning: list(Severity).index(warning.severity)))


def warning(name: str, detail: str = "", /, **values: object) -> ReportWarning:
    """A warning with these values, and a target's output."""
    texts: dict[str, str] = TEXTS["warnings"][name]
    title, text, remedy = (
        texts.get(part, "").format(**values) for part in ("title", "text", "remedy")
    )
    severity = Severity(texts.get("severity", Severity.WARNING))
    return ReportWarning(severity=severity, title=title, text=text, detail=detail, remedy=remedy)


def _of_arms(
    arm_summaries: Sequence[ArmSummary], trials: Sequence[Trial]
) -> Iterator[ReportWarning]:
    began = {trial.index: trial for trial in trials}
    measured = [known for known in arm_summaries if known.status is MeasurementStatus.MEASURED]
    reasons = Counter(broken.reason for known in measured for broken in known.failures)
    common = [reason for reason, arms in reasons.items() if arms > 1]
    for reason in common:
        yield warning("common-failure", reason=reason)
    for known in arm_summaries:
        name, total = known.arm.name, known.trials_total
        if known.status is MeasurementStatus.UNMEASURED and _only_others_failed(name, trials):
            yield warning("unmeasured-after-another", name=name)
        elif known.status is MeasurementStatus.UNMEASURED:
            what = f"its {total} {plural(total, 'trial')} is valid" if total else ""
            yield warning("unmeasured", name=name, what=what or "its trials finished")
        for broken in known.failures:
            where = f" ({broken.stage})" if broken.stage else ""
            how_often = f"{len(broken.trials)} of {total} {plural(total, 'trial')}{where}"
            if known.status is MeasurementStatus.MEASURED:
                if broken.reason in common:
                    continue
                title = f"{name} has no result in {how_often}"
            else:
                word = "failed" if known.status is MeasurementStatus.FAILED else "is invalid"
                title = f"{name} {word}: {how_often}"
            first = _when(began.get(min(broken.trials, default=-1)))
            yield warning("failure", broken.stderr, title=title, reason=f"{broken.reason}{first}")


def _only_others_failed(name: str, trials: Sequence[Trial]) -> bool:
    """Whether every trial that an arm lost, one at least, ended with another's failure."""
    lost = [trial.failure for trial in trials if name in trial.arms and not trial.is_valid]
    return bool(lost) and all(one is not None and one.arm != name for one in lost)


def _when(trial: Trial | None) -> str:
    """When a trial ended, as the end of a sentence about its failure; empty in older records."""
    if trial is None or trial.failure is None or trial.elapsed_s is None:
        return ""
    return f" (first in block {trial.block + 1}, {trial.elapsed_s:.0f} s after the run's start)"


def _of_comparisons(comparisons: Sequence[Comparison]) -> Iterator[ReportWarning]:
    invalid = [c for c in comparisons if c.verdict is Verdict.INVALID]
    for reason in dict.fromkeys(c.remarks[0] for c in invalid if c.remarks):
        names = [f"{c.arm} / {c.against}" for c in invalid if c.remarks[:1] == (reason,)]
        which = "every pair" if len(names) == len(comparisons) else ", ".join(names)
        yield warning("withheld", reason=capitalised(reason), pairs=which)
    for found in comparisons:
        against = [
            f"{check.name}: {check.ratio.text}"
            for check in found.cross_checks
            if not check.agrees and check.ratio
        ]
        if against:
            yield warning(
                "contradicted",
                arm=found.arm,
                against=found.against,
                load=found.load.text,
                sentence=found.sentence,
                checks="; ".join(against),
            )


def _of_the_aa_control(aa_control: Sequence[Comparison]) -> Iterator[ReportWarning]:
    for found in aa_control:
        if found.ratio is not None:
            name = "control-failed" if found.proven else "control"
            yield warning(name, load=found.load.text, arm=found.against, ratio=found.ratio.text)


# A body that is this much longer costs less than the least effect that a verdict distinguishes from
# none: copying 64 bytes takes nanoseconds, the smallest server some microseconds for a request.
SIZE_DIFFERENCE_MAX = 64


def _of_answers(run: Run, trials: Sequence[Trial]) -> Iterator[ReportWarning]:
    """Arms whose responses differ from the baseline's, by what they were to match in.

    This is not equal work. Of the floor it is a remark: it is a unit, and compared with nothing.
    """
    answers = {
        measurement.arm: measurement.response
        for trial in trials
        for measurement in trial.measurements
        if measurement.response is not None
    }
    right = answers.get(run.baseline)
    if right is None:
        return
    for name, given in sorted(answers.items(), key=itemgetter(0)):
        ours, theirs = _differences(run.workload.match, given, right)
        if not ours:
            continue
        title = f"{name} answers {join_names(ours)}, {run.baseline} {join_names(theirs)}"
        if name == run.floor:
            yield warning("floor-differs", title=title)
        else:
            yield _of_other_work(title, run.workload.match, given, right)


def _differences(
    match: Match, given: VerifiedResponse, right: VerifiedResponse
) -> tuple[list[str], list[str]]:
    """In what a response differs from the right one: what it has, and what the right one has."""
    compared = [(f"status {given.status}", f"status {right.status}")]
    if match is not Match.STATUS:
        compared.append((given.content_type or "no type", right.content_type or "no type"))
    if match in {Match.BYTES, Match.LENGTH}:
        compared.append((_bytes_text(given.body_bytes), _bytes_text(right.body_bytes)))
    differs = [(ours, theirs) for ours, theirs in compared if ours != theirs]
    if not differs and match is Match.BYTES and given.body_sha256 != right.body_sha256:
        differs = [("another body", "one of the same length")]
    return [ours for ours, _ in differs], [theirs for _, theirs in differs]


def _bytes_text(number: int) -> str:
    return f"{number:,} {plural(number, 'byte')}"


def _of_other_work(
    title: str, match: Match, given: VerifiedResponse, right: VerifiedResponse
) -> ReportWarning:
    """What a difference means for the verdicts, and what to do."""
    is_same_kind = (given.status, given.content_type) == (right.status, right.content_type)
    if is_same_kind and abs(given.body_bytes - right.body_bytes) <= SIZE_DIFFERENCE_MAX:
        found = warning("other-length", title=title)
        if match is not Match.BYTES:
            return updated(found, severity=Severity.NOTE, remedy="")
        return found
    found = warning("other-work", title=title)
    if given.status != right.status:
        return updated(found, remedy=f"{found.remedy.partition(';')[0]}.")
    return found


def _of_the_machine(run: Run, trials: tuple[Trial, ...]) -> Iterator[ReportWarning]:
    """Loads at which the floor's cost changed from the first third of the blocks to the last."""
    known = valid_trials(trials).with_slice_length(run.slice_ns)
    for load in loads_of(run, trials):
        sliced = known.at(load).paired(TrialKind.TIME_SLICED, run.floor) if run.floor else {}
        costs = [log_cost(sliced[block], run.floor) for block in sorted(sliced)]
        logs = [cost for cost in costs if cost is not None]
        third = len(logs) // 3
        if third < 2:
            continue
        first, last = logs[:third], logs[-third:]
        moved = math.expm1(sum(last) / third - sum(first) / third)
        if abs(moved) > DRIFT_MAX and estimate.welch(first, last) < DRIFT_ALPHA:
            yield warning("drift", load=load.text, moved=100 * moved)


def _of_the_condition(comparisons: Sequence[Comparison]) -> Iterator[ReportWarning]:
    seen: dict[Load, Comparison] = {}
    for one in comparisons:
        if one.condition is not Condition.QUIET:
            seen.setdefault(one.load, one)
    if seen:
        shares = ", ".join(
            f"{100 * one.other_programs:.0f} % at {load.text}" for load, one in seen.items()
        )
        yield warning("company", shares=shares, calm=_calm_text(seen.values()))


def _calm_text(comparisons: Iterable[Comparison]) -> str:
    """How much of the time slices was calm, by load, where that is known."""
    calm = {one.load: one.calm_fraction for one in comparisons if one.calm_fraction is not None}
    some = [f"{_share_text(part)} at {load.text}" for load, part in calm.items() if part]
    none = [load.text for load, part in calm.items() if not part]
    text = f" {said('calm', 'some', parts=', '.join(some))}" if some else ""
    return text + (f" {said('calm', 'none', loads=join_names(none))}" if none else "")


def _share_text(part: float) -> str:
    return f"{100 * part:.0f} %" if part >= ROUNDED_SHARE_MIN else "less than 1 %"


def _of_rejections(trials: Sequence[Trial]) -> Iterator[ReportWarning]:
    rejected = [trial for trial in trials if is_rejected(trial)]
    if not rejected:
        return
    messages: dict[str, list[str]] = defaultdict(list)
    for trial in rejected:
        for check in trial.failed_checks:
            if check.outcome is CheckOutcome.REJECT:
                messages[check.name].append(check.message)
    causes = ", ".join(f"{name} {len(found)}" for name, found in sorted(messages.items()))
    example = max(messages.values(), key=len)[0]
    several = "They give no result; most were repeated."
    what = plural(len(rejected), "It gives no result.", several)
    were = f"{plural(len(trials), 'trial')} {plural(len(rejected), 'was', 'were')}"
    is_many = len(rejected) / len(trials) > REJECTED_WARNING_MIN
    numbers = {"rejected": len(rejected), "total": len(trials), "were": were}
    found = warning("rejections", **numbers, what=what, causes=causes, example=example)
    yield updated(found, severity=Severity.WARNING if is_many else Severity.NOTE)


def _of_limits(
    run: Run, trials: Sequence[Trial], arm_summaries: Sequence[ArmSummary]
) -> Iterator[ReportWarning]:
    """First of all where they are why an arm has no result."""
    lost = {one.arm.name for one in arm_summaries if one.status is not MeasurementStatus.MEASURED}
    for found in server_limits(trials, ranked_arms(run)):
        remedy = capitalised(found.remedy)
        yield updated(
            warning("limit", arm=found.arm, found=found.text, remedy=remedy),
            severity=Severity.PROBLEM if found.arm in lost else Severity.WARNING,
            next_command=_explain_command(run, found.arm),
        )


def _explain_command(run: Run, name: str) -> str:
    """The command that explains an arm; commands and URLs, which no record has, are left open."""
    (arm,) = [one for one in run.arms if one.name == name]
    asked = {
        Origin.RECIPE: ExplanationRequest(target=arm.target),
        Origin.COMMAND: ExplanationRequest(cmd=f"{name}=COMMAND"),
        Origin.URL: ExplanationRequest(url=f"{name}=URL"),
    }
    request = updated(asked[arm.origin], path=run.workload.path, match=str(run.workload.match))
    return command_line(request)


def _of_unreached(run: Run, slow: Unreached) -> Iterator[ReportWarning]:
    """For each arm, the rates that it did not reach, and one that it would reach."""
    for name in sorted({name for name, _ in slow}):
        parts = {rate: part for (arm, rate), part in sorted(slow.items()) if arm == name}
        answered = join_names([f"{100 * part:.1f} % of {r:,}/s" for r, part in parts.items()])
        rates = join_names([f"{rate:,}" for rate in parts])
        below = HEADROOM * min(rate * part for rate, part in parts.items())
        reachable = rate_grid(1, max(1, int(below)))[-1]
        values = {"name": name, "rates": rates, "answered": answered, "reachable": reachable}
        found = warning("rate-not-reached", **values)
        yield updated(found, next_command=_explain_command(run, name))


def _of_the_time(run: Run, trials: Sequence[Trial]) -> Iterator[ReportWarning]:
    """Loads that a limited time was not enough for."""
    limit_s = getattr(run.request, "time_limit", None)
    measured = {trial.load_rps for trial in trials if trial.kind.is_cost}
    lost = [load.text for load in run.loads if load.rate_rps not in measured]
    if limit_s is None or not measured or not lost:
        return
    count = len(run.loads)
    values = {"seconds": limit_s, "measured": count - len(lost), "loads": count}
    yield warning("too-little-time", **values, lost=join_names(lost))


def _of_warnings(trials: Sequence[Trial], slow: Unreached) -> Iterator[ReportWarning]:
    """One report warning per kind of check warning; bottlenecks are shown with the rate."""
    seen: dict[str, list[tuple[str, FailedCheck]]] = defaultdict(list)
    for trial in trials:
        for check in trial.failed_checks:
            if check.name == "rate-not-reached" and (check.arm, trial.load_rps) in slow:
                continue
            if check.outcome is CheckOutcome.WARNING and check.name not in SAID_ELSEWHERE:
                seen[check.name].append((check.arm or " + ".join(sorted(trial.arms)), check))
    for name, found in sorted(seen.items()):
        counts = sorted(Counter(arm for arm, _ in found).items())
        arms = ", ".join(f"{arm} ({times} of its trials)" for arm, times in counts)
        title, example = TEXTS["titles"].get(name, name), found[0][1].message
        severity = Severity.WARNING if name in INVALIDATING_CHECKS else Severity.NOTE
        shown = warning("check", title=title, arms=arms, example=example)
        yield updated(shown, severity=severity, remedy=TEXTS["check-remedies"].get(name, ""))


# With the rate, and with the condition of the verdicts.
SAID_ELSEWHERE = {RATE_WARNING, "foreign"}

# Check warnings that weaken a value of the report.
INVALIDATING_CHECKS = {
    "rate-not-reached", "late-sends", "little", "drift", "generator-busy", "path", "path-losses",
    "load-hosts-differ", "lossy-slices", "clocks",
}  # fmt: skip


def _of_rates(arm_summaries: Sequence[ArmSummary]) -> Iterator[ReportWarning]:
    rates = [(s.arm.name, s.rate_rps.value) for s in arm_summaries if s.rate_rps is not None]
    if same := checks.common_ceiling(rates):
        yield warning("common-ceiling", arms=", ".join(same))


def _of_the_run(
    run: Run, arm_summaries: Sequence[ArmSummary], slow: Unreached
) -> Iterator[ReportWarning]:
    for arm in arm_summaries:
        if any(name == arm.arm.name for name, _ in slow):
            continue
        if arm.status is MeasurementStatus.MEASURED and not any(p.cost_ns for p in arm.points):
            yield warning("unknown-cost", name=arm.arm.name)
    if run.cores.shared:
        yield warning("shared-cores")
    if not run.floor:
        path = "" if run.workload.path == "/" else " The floor answers / alone."
        yield warning("no-floor", path=path)
    for one in run.unavailable:
        reason = capitalised(one.reason).rstrip(".")
        yield warning("unavailable", name=one.name, reason=reason, hint=one.install_hint)
