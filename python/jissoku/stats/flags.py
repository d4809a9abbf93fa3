"""What has to be known before any number is believed."""

from collections import Counter
from collections.abc import Iterator, Sequence

from jissoku.model import Consequence, Flag, Gate, Run, Standing, Status, Trial, Verdict, Weight
from jissoku.model.summary import Comparison
from jissoku.stats import saturation
from jissoku.stats.campaign import is_rejected
from jissoku.stats.gate import RATE_STAMP

REJECTED_WORTH_A_CAUTION = 0.05

ORDER = (Weight.PROBLEM, Weight.CAUTION, Weight.NOTE)


def flags(
    run: Run,
    trials: Sequence[Trial],
    standings: Sequence[Standing],
    comparisons: Sequence[Comparison],
    twin: Comparison | None = None,
) -> tuple[Flag, ...]:
    """All of them, problems first; the same records give the same flags in the same order."""
    found = [
        *_of_arms(standings),
        *_of_comparisons(comparisons),
        *_of_the_twin(twin),
        *_of_answers(run, trials),
        *_of_rejections(trials),
        *_of_stamps(trials),
        *_of_rates(standings),
        *_of_the_run(run, standings),
    ]
    return tuple(sorted(found, key=lambda flag: ORDER.index(flag.weight)))


def _of_arms(standings: Sequence[Standing]) -> Iterator[Flag]:
    for known in standings:
        name = known.arm.name
        if known.status is Status.UNMEASURED:
            count = known.trials_total
            text = f"None of its {count} trials counted." if count else "No trial of it ended."
            yield Flag(weight=Weight.PROBLEM, title=f"{name} was not measured", text=text)
        for broken in known.breakdowns:
            where = f" ({broken.stage})" if broken.stage else ""
            how_often = f"{len(broken.trials)} of {known.trials_total} trials"
            if known.status is Status.MEASURED:
                title = f"{name} gave no number in {how_often}{where}"
            else:
                word = "failed" if known.status is Status.FAILED else "is invalid"
                title = f"{name} {word}: {how_often}{where}"
            yield Flag(weight=Weight.PROBLEM, title=title, text=broken.reason, detail=broken.stderr)


def _of_comparisons(comparisons: Sequence[Comparison]) -> Iterator[Flag]:
    invalid = [c for c in comparisons if c.verdict is Verdict.INVALID]
    for reason in dict.fromkeys(c.remarks[0] for c in invalid if c.remarks):
        names = [f"{c.arm} / {c.against}" for c in invalid if c.remarks[:1] == (reason,)]
        which = "every pair" if len(names) == len(comparisons) else ", ".join(names)
        text = f"{reason[:1].upper()}{reason[1:]}. Concerned: {which}."
        yield Flag(weight=Weight.PROBLEM, title="Verdicts withheld", text=text)
    for found in comparisons:
        if found.verdict is Verdict.INTERFERENCE:
            title = f"{found.arm} and {found.against} disturb each other"
            yield Flag(weight=Weight.CAUTION, title=title, text=f"{found.sentence}.")


def _of_the_twin(twin: Comparison | None) -> Iterator[Flag]:
    if twin is None or twin.ratio is None:
        return
    text = f"{twin.against} raced against itself: {twin.ratio.text} of its own CPU per request."
    if twin.proven:
        title = "Equal servers were told apart"
        yield Flag(weight=Weight.CAUTION, title=title, text=f"{text} Smaller effects do not count.")
    else:
        yield Flag(weight=Weight.NOTE, title="The noise of this sitting", text=text)


def _of_answers(run: Run, trials: Sequence[Trial]) -> Iterator[Flag]:
    """Arms that answer something else than the baseline: theirs is not equal work."""
    answers = {
        lane.arm: lane.answer for trial in trials for lane in trial.lanes if lane.answer is not None
    }
    right = answers.get(run.baseline)
    if right is None:
        return
    for name in sorted(answers):
        given = answers[name]
        differs = [
            f"{what} {ours!r}, not {theirs!r}"
            for what, ours, theirs in (
                ("status", given.status, right.status),
                ("content type", given.content_type, right.content_type),
                ("a body of so many bytes:", given.body_bytes, right.body_bytes),
            )
            if ours != theirs
        ]
        if not differs and given.body_sha256 != right.body_sha256:
            differs = ["other bytes in the body"]
        if differs:
            title = f"{name} and {run.baseline} are not comparable"
            text = f"{name} answers with {', '.join(differs)}."
            yield Flag(weight=Weight.CAUTION, title=title, text=text)


def _of_rejections(trials: Sequence[Trial]) -> Iterator[Flag]:
    rejected = [trial for trial in trials if is_rejected(trial)]
    if not rejected:
        return
    names: dict[str, int] = {}
    for trial in rejected:
        for gate in trial.gates:
            if gate.consequence is Consequence.REJECT:
                names[gate.name] = names.get(gate.name, 0) + 1
    causes = ", ".join(f"{name} {times}" for name, times in sorted(names.items()))
    share = len(rejected) / len(trials)
    yield Flag(
        weight=Weight.CAUTION if share > REJECTED_WORTH_A_CAUTION else Weight.NOTE,
        title=f"The machine disturbed {len(rejected)} of {len(trials)} trials",
        text=f"They give no number; most were run again. By gate: {causes}.",
    )


def _of_stamps(trials: Sequence[Trial]) -> Iterator[Flag]:
    """One flag for each kind of stamp; what bound a rate stands beside the rate."""
    seen: dict[str, list[tuple[str, Gate]]] = {}
    for trial in trials:
        for gate in trial.gates:
            if gate.consequence is Consequence.STAMP and gate.name != RATE_STAMP:
                arm = gate.arm or " + ".join(sorted(trial.arms))
                seen.setdefault(gate.name, []).append((arm, gate))
    for name, found in sorted(seen.items()):
        counts = sorted(Counter(arm for arm, _ in found).items())
        arms = ", ".join(f"{arm} ({times} of its trials)" for arm, times in counts)
        yield Flag(
            weight=Weight.CAUTION if name in SPOILS_A_FIGURE else Weight.NOTE,
            title=TITLES.get(name, name),
            text=f"{arms}. For example: {found[0][1].message}.",
        )


# Stamps after which a figure in the report means less than it seems to.
SPOILS_A_FIGURE = {"rate-not-reached", "late-sends", "little", "drift", "generator-busy"}
TITLES = {
    "drift": "The rate drifted within the window",
    "generator-busy": "The stopwatch was near its limit",
    "late-sends": "Requests left late",
    "little": "Some connections starved",
    "no-keep-alive": "A connection was closed after every answer",
    "overflows": "A listen queue overflowed at full load",
    "rate-not-reached": "The offered rate was not reached",
    "reconnects": "Connections were closed and opened again",
    "retransmits": "TCP sent segments again at full load",
}


def _of_rates(standings: Sequence[Standing]) -> Iterator[Flag]:
    rates = [(s.arm.name, s.rate_rps.value) for s in standings if s.rate_rps is not None]
    same = saturation.common_ceiling(rates)
    if same:
        yield Flag(
            weight=Weight.CAUTION,
            title="A common ceiling",
            text=(
                f"The closed-loop rates of {', '.join(same)} lie within 1 % of each other: more"
                " likely the stopwatch or the kernel is measured than the servers."
            ),
        )


def _of_the_run(run: Run, standings: Sequence[Standing]) -> Iterator[Flag]:
    for arm in standings:
        if arm.status is Status.MEASURED and arm.cost_ns is None:
            title = f"The CPU time of {arm.arm.name} is not known"
            text = "It was not started here, or too few trials counted: no cost, and no verdict."
            yield Flag(weight=Weight.CAUTION, title=title, text=text)
    if run.cores.shared:
        yield Flag(
            weight=Weight.CAUTION,
            title="Servers and stopwatch shared cores",
            text="Ratios between targets stand; absolute figures do not.",
        )
    if not run.floor:
        text = "No target can be shown as a multiple of the least possible cost."
        yield Flag(weight=Weight.CAUTION, title="The floor was not raced", text=text)
    for missing in run.missing:
        reason = f"{missing.reason[:1].upper()}{missing.reason[1:]}".rstrip(".")
        text = f"{reason}. To add it: {missing.remedy}"
        yield Flag(weight=Weight.NOTE, title=f"{missing.name} could not be raced", text=text)
