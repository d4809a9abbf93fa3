"""Explanations and tunings as text and as JSON: causes, failed probes, and every knob."""

import math
from collections import defaultdict

import msgspec

from jissoku.model import Comparison, Decision, KnobGoal, KnobResult, TuningResult
from jissoku.model.explanation import Explanation, FindingScope
from jissoku.model.profile import SAMPLES_MIN, ProfileRow
from jissoku.model.wording import capitalised, counted, join_names, verdict_text
from jissoku.report.format import NOTHING, filled, ratio, sanitized, significant, to_json
from jissoku.report.profile import shortened

# Calls rarer than this per request belong to connections or timers.
CALLS_MIN = 0.01

# Functions that are listed: the most expensive, and none below this share of the CPU time.
FUNCTIONS_MAX = 6
SHARE_MIN = 0.01

# Below this a value in microseconds would read as 0.0.
TIME_NS_MIN = 100


def explanation_to_text(explanation: Explanation) -> str:
    observed, syscalls = explanation.observations, explanation.observations.syscalls
    causes = [f for f in explanation.findings if f.scope is FindingScope.SERVER]
    settings: dict[str, str] = {}
    said = []
    for one in causes:
        # One setting may remove several causes: it is said where it stands first.
        first = settings.setdefault(one.setting, one.name)
        said.append(f"as of {first}" if one.setting and first != one.name else one.setting)
    counts = syscalls.counts if syscalls else {}
    rates = {name: count / syscalls.requests for name, count in counts.items() if syscalls}
    ordered = sorted(rates.items(), key=lambda item: -item[1])
    return filled(
        "explanation.txt.j2",
        name=f"{explanation.target} ({explanation.version}) at {explanation.path}",
        until=_until(explanation),
        causes=list(zip(causes, said, strict=True)),
        others=[f for f in explanation.findings if f.scope is FindingScope.MEASUREMENT],
        observed=observed,
        calls=", ".join(f"{rate:.2f} {name}" for name, rate in ordered if rate >= CALLS_MIN),
        functions=_functions(explanation),
        samples_min=SAMPLES_MIN,
        share_min=SHARE_MIN,
        shortened=shortened,
        changes=explanation.changes.rstrip("\n"),
        time_ns_min=TIME_NS_MIN,
    )


def _functions(explanation: Explanation) -> list[ProfileRow]:
    """The most expensive functions in user space, whether or not that is a cause."""
    profile = explanation.observations.profile
    least_ns = SHARE_MIN * profile.cpu_ns_per_request if profile else math.inf
    return [row for row in explanation.functions if row.ns >= least_ns][:FUNCTIONS_MAX]


def _until(explanation: Explanation) -> str:
    if explanation.finished:
        return ""
    return f" until {explanation.until or 'it was interrupted'}"


def causes_text(explanation: Explanation) -> str:
    """What was found, in a line."""
    causes = [one.name for one in explanation.findings if one.scope is FindingScope.SERVER]
    count = f"{explanation.target}: {counted(len(causes), 'cause')} found{_until(explanation)}"
    return f"{count}: {join_names(causes)}." if causes else f"{count}."


def explanation_to_json(explanation: Explanation) -> str:
    """Without stacks."""
    found = msgspec.to_builtins(explanation)
    if profile := found["observations"]["profile"]:
        for name in ("frames", "threads", "stacks", "interpreted"):
            profile["samples"][name] = []
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n"


HEADER = ("knob", "alone", "among all", "counter per request", "decision")
COST, TIME = "CPU per request", "time per answer"

WITHOUT_SENTENCE = {Decision.ACCEPTED, Decision.NO_GAIN, Decision.COUNTER_UNCHANGED}


def tuning_to_json(tuning: TuningResult) -> str:
    return to_json(tuning, order=None)


def tuning_to_text(tuning: TuningResult, *, has_sandbox: bool = True) -> str:
    """Every knob, the diff, and at the end what was found.

    Without the changes of the sandbox it is for a screen; the report has them.
    """
    tuning = sanitized(tuning)
    results = tuning.results
    rows = [HEADER, *(_row(result, tuning) for result in results)]
    has_others = any(result.leave_one_out for result in results)
    if not has_others:
        rows = [row[:2] + row[3:] for row in rows]
    remarks: dict[str, list[str]] = defaultdict(list)
    for result in results:
        # A row of the table says all there is to say of the others.
        if result.decision not in WITHOUT_SENTENCE:
            text = f"{capitalised(result.sentence)}." if result.sentence else ""
            remarks[f"{result.decision}. {text}"].append(result.knob.name)
    skipped: dict[str, list[str]] = defaultdict(list)
    for name, why in tuning.skipped.items():
        skipped[why].append(name)
    is_measured = any(result.alone or result.before is not None for result in results)
    return filled(
        "tuning.txt.j2",
        tuning=tuning,
        workload=_workload(tuning),
        table=_table(rows) if is_measured else (),
        has_others=has_others,
        rates=[r.knob.name for r in results if r.knob.objective is KnobGoal.RATE],
        remarks=remarks,
        skipped=skipped,
        sandbox=tuning.sandbox if has_sandbox else (),
        kept=[r.knob for r in results if r.knob.name in tuning.kept],
        diff=tuning.diff.rstrip("\n"),
        verdict=_verdict(tuning),
        is_left=any(one.decision is Decision.ACCEPTED for one in results),
    )


def headline(tuning: TuningResult) -> str:
    return " ".join(_verdict(tuning))


def _workload(tuning: TuningResult) -> str:
    found = [r.alone for r in tuning.results if r.alone and r.knob.objective is KnobGoal.COST]
    timed = [one for one in found if one.connections]
    if not timed:
        return ""
    connections = counted(timed[0].connections, "connection")
    return f", {timed[0].load.text} over {connections}"


def _verdict(tuning: TuningResult) -> list[str]:
    """What is proven, and what was measured and is not."""
    aims = {r.knob.name: r.knob.objective for r in tuning.results}
    proven = [
        (names, comparison, what)
        for aim, comparison, what in (
            (KnobGoal.COST, tuning.combined, COST),
            (KnobGoal.RATE, tuning.full_load, TIME),
        )
        if comparison and (names := [name for name in tuning.kept if aims[name] is aim])
    ]
    paying = [r for r in tuning.results if r.decision is Decision.ACCEPTED]
    return filled(
        "tuning_verdict.txt.j2",
        tuning=tuning,
        proven=proven,
        left=[result for result in paying if result.knob.name not in tuning.kept],
        decisions={result.decision for result in tuning.results},
        Decision=Decision,
        cost=COST,
        effect=_effect,
        joined=join_names,
        ratio=ratio,
    ).splitlines()


def _decision(result: KnobResult, tuning: TuningResult) -> str:
    if result.decision is not Decision.ACCEPTED:
        return str(result.decision)
    is_confirmed = tuning.proven and result.knob.name in tuning.kept
    return f"{result.decision}, {'' if is_confirmed else 'not '}confirmed"


def _row(result: KnobResult, tuning: TuningResult) -> tuple[str, ...]:
    knob = result.knob
    # Only named where it is not that of the column's header.
    unit = "" if knob.counter_unit == "per request" else f" {knob.counter_unit}"
    return (
        knob.name,
        ratio(result.alone.ratio if result.alone else None),
        ratio(result.leave_one_out.ratio if result.leave_one_out else None),
        f"{knob.counter} {_reading(result.before)} to {_reading(result.after)}{unit}",
        _decision(result, tuning),
    )


def _reading(value: float | None) -> str:
    return NOTHING if value is None else significant(value)


def _effect(comparison: Comparison, what: str = COST) -> str:
    said = verdict_text(comparison.metric, comparison.verdict)
    return f"{ratio(comparison.ratio)} the {what} ({said})"


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
