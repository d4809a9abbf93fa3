"""The result of a tuning, as text and as JSON: every knob with its decision."""

from collections.abc import Iterator

import msgspec

from jissoku.model import Comparison, Decision, KnobResult, Objective, TuningResult
from jissoku.model.wording import verdict_text
from jissoku.report.format import NOTHING, ratio, rounded, sanitized, significant

SHARED = "shared cores: at full load, the target and the load generator on all of them"

HEADER = ("knob", "alone", "left out of all", "counter per request", "decision")
GAP = "  "

COST = "CPU per request"
TIME = "time per answer"


def tuning_to_json(tuning: TuningResult) -> str:
    """One object of schema `jissoku.tuning/1`, indented, with a line end."""
    plain = rounded(msgspec.to_builtins(sanitized(tuning)))
    return msgspec.json.format(msgspec.json.encode(plain), indent=2).decode() + "\n"


def tuning_to_text(tuning: TuningResult) -> str:
    """The same as text; the diff is at its end."""
    tuning = sanitized(tuning)
    lines = [headline(tuning), ""]
    if tuning.results:
        lines += [
            f"CPU per request of {tuning.target} at {tuning.path}, with 95 % intervals.",
            "Alone: relative to the unchanged configuration. Left out of all: relative to all.",
            *_core_warning(tuning),
            "",
            *_table([HEADER, *(_row(r, tuning) for r in tuning.results)]),
            "",
        ]
        lines += [f"{r.knob.name}: {_decision(r, tuning)}. {_sentence(r)}" for r in tuning.results]
    lines += [f"{name}: not tried; it {why}." for name, why in tuning.skipped.items()]
    if tuning.all_together:
        lines += ["", f"All of them together: {_effect(tuning.all_together)}."]
    if tuning.combined:
        lines += ["", f"The accepted ones together, on new blocks: {_effect(tuning.combined)}."]
    if tuning.full_load:
        lines += [
            "",
            f"At full load, on new blocks, {SHARED}: {_effect(tuning.full_load, TIME)}.",
        ]
    lines += _unconfirmed(tuning)
    if tuning.sandbox:
        lines += ["", "Changed in every arm so that it can run next to the machine's own server:"]
        lines += [f"  {sentence}." for sentence in tuning.sandbox]
    if tuning.diff:
        lines += ["", "Description and price of each:"]
        lines += [
            f"  {r.knob.name}: {' '.join(r.knob.why.split())}"
            for r in tuning.results
            if r.knob.name in tuning.kept
        ]
        lines += ["", tuning.diff.rstrip("\n")]
    return "\n".join(lines) + "\n"


def _unconfirmed(tuning: TuningResult) -> list[str]:
    """Which accepted knobs are not in the diff, beside those that are."""
    accepted = [r.knob.name for r in tuning.results if r.decision is Decision.ACCEPTED]
    dropped = [name for name in accepted if name not in tuning.kept]
    if not tuning.proven or not dropped:
        return []
    return ["", f"Not confirmed on new blocks, so not in the diff: {', '.join(dropped)}."]


def headline(tuning: TuningResult) -> str:
    kept = [r.knob.name for r in tuning.results if r.decision is Decision.ACCEPTED]
    if not tuning.finished:
        return f"The tuning of {tuning.target} was interrupted: the results below are not proven."
    if tuning.proven:
        return f"Proven for {tuning.target}: {'; '.join(_proven(tuning))}."
    if kept:
        return f"No change: effects of {', '.join(kept)} alone were not confirmed on new blocks."
    return _nothing(tuning)


def _proven(tuning: TuningResult) -> Iterator[str]:
    """The accepted knobs, by the objective that they were judged by."""
    judged = {r.knob.name: r.knob.objective for r in tuning.results}
    for by, comparison, what in (
        (Objective.COST, tuning.combined, COST),
        (Objective.RATE, tuning.full_load, TIME),
    ):
        names = [name for name in tuning.kept if judged[name] is by]
        if names and comparison:
            yield f"{' and '.join(names)}, together {_effect(comparison, what)}"


def _core_warning(tuning: TuningResult) -> list[str]:
    """A note on rows that are not CPU per request."""
    names = [r.knob.name for r in tuning.results if r.knob.objective is Objective.RATE]
    if not names:
        return []
    return [f"Of {' and '.join(names)} it is the time per answer, {SHARED}."]


def _nothing(tuning: TuningResult) -> str:
    decisions = {result.decision for result in tuning.results}
    if not decisions:
        return f"There is no knob to test: all knobs of {tuning.target} are set already."
    if Decision.UNDECIDED in decisions:
        return f"No knob of {tuning.target} is proven to reduce the cost; some are undecided."
    if Decision.BROKEN in decisions:
        return f"No knob of {tuning.target} is proven to reduce the cost; some cannot be measured."
    return f"No knob of {tuning.target} reduces the cost of this workload."


def _decision(result: KnobResult, tuning: TuningResult) -> str:
    """The decision; of a knob that pays also whether new blocks have confirmed it."""
    if result.decision is not Decision.ACCEPTED:
        return str(result.decision)
    is_confirmed = tuning.proven and result.knob.name in tuning.kept
    return f"{result.decision}, {'' if is_confirmed else 'not '}confirmed on new blocks"


def _row(result: KnobResult, tuning: TuningResult) -> tuple[str, ...]:
    return (
        result.knob.name,
        ratio(result.alone.ratio if result.alone else None),
        ratio(result.leave_one_out.ratio if result.leave_one_out else None),
        f"{result.knob.counter} {_count(result.before)} to {_count(result.after)}{_by(result)}",
        _decision(result, tuning),
    )


def _by(result: KnobResult) -> str:
    """The counter's unit, if it is not per request as in the column's header."""
    return "" if result.knob.counter_unit == "per request" else f" {result.knob.counter_unit}"


def _count(value: float | None) -> str:
    return NOTHING if value is None else significant(value)


def _effect(comparison: Comparison, what: str = COST) -> str:
    said = verdict_text(comparison.metric, comparison.verdict)
    return f"{ratio(comparison.ratio)} the {what} ({said})"


def _sentence(result: KnobResult) -> str:
    sentence = result.sentence
    return f"{sentence[:1].upper()}{sentence[1:]}." if sentence else ""


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
