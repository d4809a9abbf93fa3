"""The result of a tuning, as text and as JSON: every knob with its decision."""

from collections.abc import Iterator

from jissoku.model import Comparison, Decision, KnobResult, Objective, TuningResult
from jissoku.model.wording import verdict_text
from jissoku.report.format import NOTHING, ratio, sanitized, significant, to_json

SHARED = "shared cores: at full load, the target and the load generator on all of them"

HEADER = ("knob", "alone", "left out of all", "counter per request", "decision")
GAP = "  "

COST = "CPU per request"
TIME = "time per answer"


def tuning_to_json(tuning: TuningResult) -> str:
    """One object of the schema that it names, its keys in the order of the fields."""
    return to_json(tuning, order=None)


def tuning_to_text(tuning: TuningResult) -> str:
    """The same as text; the diff is at its end."""
    return "\n".join(_lines(sanitized(tuning))) + "\n"


def _lines(tuning: TuningResult) -> Iterator[str]:
    yield headline(tuning)
    yield ""
    if tuning.results:
        yield f"CPU per request of {tuning.target} at {tuning.path}, with 95 % intervals."
        yield "Alone: relative to the unchanged configuration. Left out of all: relative to all."
        rates = [r.knob.name for r in tuning.results if r.knob.objective is Objective.RATE]
        if rates:
            yield f"Of {' and '.join(rates)} it is the time per answer, {SHARED}."
        yield ""
        yield from _table([HEADER, *(_row(r, tuning) for r in tuning.results)])
        yield ""
    for result in tuning.results:
        yield f"{result.knob.name}: {_decision(result, tuning)}. {_sentence(result)}"
    yield from (f"{name}: not tried; it {why}." for name, why in tuning.skipped.items())
    for title, found, what in (
        ("All of them together", tuning.all_together, COST),
        ("The accepted ones together, on new blocks", tuning.combined, COST),
        (f"At full load, on new blocks, {SHARED}", tuning.full_load, TIME),
    ):
        if found:
            yield f"\n{title}: {_effect(found, what)}."
    accepted = [r.knob.name for r in tuning.results if r.decision is Decision.ACCEPTED]
    dropped = [name for name in accepted if name not in tuning.kept]
    if tuning.proven and dropped:
        yield f"\nNot confirmed on new blocks, so not in the diff: {', '.join(dropped)}."
    if tuning.sandbox:
        yield "\nChanged in every arm so that it can run next to the machine's own server:"
        yield from (f"  {sentence}." for sentence in tuning.sandbox)
    if tuning.diff:
        yield "\nDescription and price of each:"
        kept = [r.knob for r in tuning.results if r.knob.name in tuning.kept]
        yield from (f"  {knob.name}: {' '.join(knob.why.split())}" for knob in kept)
        yield "\n" + tuning.diff.rstrip("\n")


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


def _nothing(tuning: TuningResult) -> str:
    decisions = {result.decision for result in tuning.results}
    if not decisions:
        return f"There is no knob to test: all knobs of {tuning.target} are set already."
    unproven = f"No knob of {tuning.target} is proven to reduce the cost"
    if Decision.UNDECIDED in decisions:
        return f"{unproven}; some are undecided."
    if Decision.BROKEN in decisions:
        return f"{unproven}; some cannot be measured."
    return f"No knob of {tuning.target} reduces the cost of this workload."


def _decision(result: KnobResult, tuning: TuningResult) -> str:
    """The decision; of a knob that pays also whether new blocks have confirmed it."""
    if result.decision is not Decision.ACCEPTED:
        return str(result.decision)
    is_confirmed = tuning.proven and result.knob.name in tuning.kept
    return f"{result.decision}, {'' if is_confirmed else 'not '}confirmed on new blocks"


def _row(result: KnobResult, tuning: TuningResult) -> tuple[str, ...]:
    knob = result.knob
    # Only named where it is not that of the column's header.
    unit = "" if knob.counter_unit == "per request" else f" {knob.counter_unit}"
    return (
        knob.name,
        ratio(result.alone.ratio if result.alone else None),
        ratio(result.leave_one_out.ratio if result.leave_one_out else None),
        f"{knob.counter} {_count(result.before)} to {_count(result.after)}{unit}",
        _decision(result, tuning),
    )


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
