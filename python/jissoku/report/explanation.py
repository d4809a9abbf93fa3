"""Explanations and tunings as text and as JSON: causes, failed probes, and every knob."""

import statistics
from collections.abc import Iterator

import msgspec

from jissoku.model import Comparison, Decision, KnobGoal, KnobResult, TuningResult
from jissoku.model.explanation import (
    Explanation,
    Finding,
    FindingScope,
    LoadObservation,
    Observations,
    SyscallObservation,
    WireObservation,
)
from jissoku.model.profile import SAMPLES_MIN
from jissoku.model.updated import updated
from jissoku.model.wording import join_names, micro_text, plural, verdict_text
from jissoku.report.format import NOTHING, clean, ratio, sanitized, significant, to_json
from jissoku.report.profile import shortened

# Calls rarer than this per request belong to connections or timers.
CALLS_MIN = 0.01

# Functions that are listed: the most expensive, and none below this share of the CPU time.
FUNCTIONS_MAX = 6
SHARE_MIN = 0.01

# Below this a value in microseconds would read as 0.0.
TIME_NS_MIN = 100


def explanation_to_text(explanation: Explanation) -> str:
    return "\n".join(_explained(explanation)) + "\n"


def causes_text(explanation: Explanation) -> str:
    """What was found, in a line."""
    causes = [one.name for one in explanation.findings if one.scope is FindingScope.SERVER]
    until = "" if explanation.finished else " until it was interrupted"
    count = f"{explanation.target}: {_count(len(causes), 'cause')} found{until}"
    return f"{count}: {join_names(causes)}." if causes else f"{count}."


def explanation_to_json(explanation: Explanation) -> str:
    """All observations and findings as one JSON object, without stacks."""
    found = msgspec.to_builtins(explanation)
    if profile := found["observations"]["profile"]:
        for name in ("frames", "threads", "stacks", "interpreted"):
            profile["samples"][name] = []
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n"


def _explained(explanation: Explanation) -> Iterator[str]:
    causes = [f for f in explanation.findings if f.scope is FindingScope.SERVER]
    others = [f for f in explanation.findings if f.scope is FindingScope.MEASUREMENT]
    name = f"{explanation.target} ({explanation.version}) at {explanation.path}"
    until = "" if explanation.finished else " until it was interrupted"
    yield f"{name}: {_count(len(causes), 'cause')} found{until}."
    yield ""
    yield from _observations(explanation.observations)
    yield from _functions(explanation)
    settings: dict[str, str] = {}
    for finding in causes:
        first = settings.setdefault(finding.setting, finding.name)
        # One setting may remove several: it is said where it stands first.
        is_said = finding.setting and first != finding.name
        same = f"as of {first}" if is_said else finding.setting
        yield from _finding(updated(finding, setting=same))
    if others:
        yield ""
        yield "About the measurement, not the target:"
        for finding in others:
            yield from _finding(finding)
    if explanation.changes:
        yield ""
        yield "Suggested changes of the configuration, not measured yet:"
        yield explanation.changes.rstrip("\n")
    if explanation.observations.failures:
        yield ""
    for lost in explanation.observations.failures:
        how = f" To see it: {lost.hint}." if lost.hint else ""
        yield f"Not observed: {lost.probe}; {lost.reason}.{how}"


def _finding(finding: Finding) -> Iterator[str]:
    yield ""
    yield f"{finding.name}: {finding.cause}"
    for index, sentence in enumerate(finding.evidence):
        yield f"  {'evidence:' if index == 0 else '         '}  {sentence}"
    yield f"  effect:    {finding.effect}"
    yield f"  remedy:    {finding.remedy}"
    if finding.setting:
        yield f"  setting:   {finding.setting}"
    yield f"  refuted by {finding.falsified_by}"


# From this share on it is said where the time of functions that are not listed is.
REST_MIN = 0.1
REST = (
    "functions with smaller shares, and code without names, such as an interpreter's and what a JIT"
    " compiler made. `jissoku profile` lists more; node --perf-basic-prof names compiled functions,"
    " with --interpreted-frames-native-stack interpreted ones, too"
)


def _functions(explanation: Explanation) -> Iterator[str]:
    """Where the time in user space goes, whether or not that is a cause."""
    profile = explanation.observations.profile
    if profile is None:
        return
    total_ns = profile.cpu_ns_per_request
    shown = [row for row in explanation.functions if row.ns >= SHARE_MIN * total_ns]
    count = _count(profile.samples.samples, "sample")
    if not shown:
        # A function with a smaller share may have too few samples to be listed.
        least = max(SHARE_MIN, SAMPLES_MIN / max(1, profile.samples.samples))
        if least < 1:
            says = f"no function of the target takes {least:.0%} of the CPU time or more ({count})"
        else:
            says = f"{count} are too few to name a function; `jissoku profile` takes more"
        yield f"User space: {says}."
        yield from _rest(explanation, 0.0)
        return
    yield f"User space, functions by share of the CPU time ({count}; more: jissoku profile):"
    for row in shown[:FUNCTIONS_MAX]:
        low, high = row.ns_low / total_ns, row.ns_high / total_ns
        share = f"{row.ns / total_ns:6.1%} [{low:.1%}, {high:.1%}]"
        name = f"{clean(shortened(row.name))} ({clean(row.place)})"
        yield f"  {share:<22}  {micro_text(row.ns, ',.2f'):>10}  {name}"
    yield from _rest(explanation, sum(row.ns for row in shown[:FUNCTIONS_MAX]) / total_ns)


def _rest(explanation: Explanation, listed: float) -> Iterator[str]:
    """Where the time outside the kernel is that the listed functions do not account for."""
    load = explanation.observations.load
    rest = ((load.cpu_user_fraction if load else None) or 0.0) - listed
    if rest >= REST_MIN:
        yield f"  The other {rest:.0%} outside the kernel: {REST}."


def _observations(observed: Observations) -> Iterator[str]:
    if observed.load is not None:
        yield from _cost(observed, observed.load)
        yield from _load(observed.load)
    if observed.syscalls is not None:
        yield from _calls(observed.syscalls)
    if observed.wire is not None:
        yield from _wire(observed.wire)
    if (memory := observed.memory) is not None and memory.connections:
        each = (memory.rss_bytes_after - memory.rss_bytes_before) / memory.connections
        yield f"Memory: {each / 1024:,.1f} KiB for each idle connection."
    if (timers := observed.timers) is not None:
        yield (
            f"Timers: {micro_text(timers.cpu_ns_idle)} per request with {timers.waiting:,} "
            f"idle connections, {micro_text(timers.cpu_ns_waiting)} with as many waiting ones; "
            f"an isolated delayed answer was {timers.lateness_ns / 1e6:.2f} ms late."
        )


def _cost(observed: Observations, load: LoadObservation) -> Iterator[str]:
    cost, floor_ns = load.cpu_ns_per_request, observed.floor_cpu_ns
    if cost is None:
        yield "CPU time per request: unknown, because its processes cannot be found."
        return
    if load.is_served_by_kernel:
        yield from _total_cost(observed, load)
        return
    user = load.cpu_user_fraction
    split = "" if user is None else f", {user:.0%} of it outside the kernel"
    yield f"CPU time per request: {micro_text(cost)} (estimate){split}."
    if floor_ns and cost <= floor_ns:
        yield f"  The floor's is {micro_text(floor_ns)}: no difference (estimate)."
    elif floor_ns:
        yield (
            f"  {cost / floor_ns:.1f} times the floor: {micro_text(floor_ns)} are the "
            f"kernel's and unavoidable, {micro_text(cost - floor_ns)} are its own."
        )


def _total_cost(observed: Observations, load: LoadObservation) -> Iterator[str]:
    """The cost of a target whose work is done by kernel threads."""
    together, floor_ns = load.total_cpu_ns_per_request, observed.floor_total_cpu_ns
    own = (load.cpu_ns or 0) / load.requests
    kernel = (load.kernel_cpu_ns or 0) / load.requests
    used = micro_text(own) if own >= TIME_NS_MIN else f"less than {micro_text(TIME_NS_MIN)}"
    yield (
        f"CPU time per request: unknown for the target alone. Its processes used {used}, and"
        f" kernel threads used {micro_text(kernel)} for it."
    )
    if together is not None:
        total = f"{micro_text(together)} (estimate)"
        if floor_ns:
            total += f"; the floor's is {micro_text(floor_ns)} ({together / floor_ns:.2f} times)"
        yield f"  Total CPU with load generator and kernel threads: {total}."
    yield "  Work done inside the sender's own system calls is counted as the load generator's."


def _load(load: LoadObservation) -> Iterator[str]:
    busy = sorted((t for t in load.threads if t.cpu_ns), key=lambda t: -t.cpu_ns)[:4]
    if busy:
        shares = ", ".join(
            f"{t.name} {t.cpu_ns / load.threads_ns:.0%} on core {t.core}" for t in busy
        )
        pids = len({thread.pid for thread in load.threads})
        switches = sum(t.switches_voluntary + t.switches_involuntary for t in load.threads)
        waited = sum(thread.wait_ns for thread in load.threads)
        yield (
            f"{_count(pids, 'process', 'processes')}, {_count(len(load.threads), 'thread')}, "
            f"{_count(load.cores, 'core')}; busiest: {shares}."
        )
        yield (
            f"  {switches:,} context switches and {waited / 1e6:,.0f} ms ready without a core, "
            f"in {load.threads_ns / 1e9:.1f} s."
        )
    if load.tcp_retransmits:
        again = _count(load.tcp_retransmits, "segment")
        yield f"  Retransmitted on the whole machine: {again}."


def _calls(syscalls: SyscallObservation) -> Iterator[str]:
    rates = {name: count / syscalls.requests for name, count in syscalls.counts.items()}
    ordered = sorted(rates.items(), key=lambda item: -item[1])
    text = ", ".join(f"{rate:.2f} {name}" for name, rate in ordered if rate >= CALLS_MIN)
    yield f"System calls per request: {text or 'none observed'}."
    yield (
        f"  {_count(syscalls.empty_waits, 'wait')} without an event in"
        f" {_count(syscalls.requests, 'request')},"
        f" which took {syscalls.slowdown:.1f} times as long under the trace."
    )


def _wire(wire: WireObservation) -> Iterator[str]:
    segments = ""
    if wire.segments:
        segments = f" in {_count(round(statistics.median(wire.segments)), 'segment')}"
    end = f"open after {wire.answers_asked:,} answers"
    if wire.answers_until_close is not None:
        end = f"ended after {_count(wire.answers_until_close, 'answer')}"
    yield (
        f"An isolated answer: {wire.answer_size:,} bytes{segments}, "
        f"{micro_text(statistics.median(wire.latency_ns), ',.0f')}; the connection was {end}."
    )


def _count(number: int, noun: str, several: str = "") -> str:
    return f"{number:,} {plural(number, noun, several)}"


SHARED = "at full load on all cores, which the load generator shares"

HEADER = ("knob", "alone", "among all", "counter per request", "decision")
GAP = "  "

COST = "CPU per request"
TIME = "time per answer"

# A row of the table says all there is to say of these.
WITHOUT_SENTENCE = {Decision.ACCEPTED, Decision.NO_GAIN, Decision.COUNTER_UNCHANGED}


def tuning_to_json(tuning: TuningResult) -> str:
    """One object of the schema that it names, its keys in the order of the fields."""
    return to_json(tuning, order=None)


def tuning_to_text(tuning: TuningResult, *, has_sandbox: bool = True) -> str:
    """The same as text: every knob, the diff, and at the end what was found.

    Without the changes of the sandbox it is for a screen; the report has them.
    """
    if not has_sandbox:
        tuning = updated(tuning, sandbox=())
    return "\n".join(_lines(sanitized(tuning))) + "\n"


def _lines(tuning: TuningResult) -> Iterator[str]:
    if any(result.alone or result.before is not None for result in tuning.results):
        yield f"CPU per request of {tuning.target} at {tuning.path}{_workload(tuning)}."
        if any(result.leave_one_out for result in tuning.results):
            yield "Alone: relative to it as it is. Among all: all but this one, relative to all."
        rates = [r.knob.name for r in tuning.results if r.knob.objective is KnobGoal.RATE]
        if rates:
            yield f"Of {' and '.join(rates)}: the time per answer, {SHARED}."
        yield ""
        rows = [HEADER, *(_row(r, tuning) for r in tuning.results)]
        if all(result.leave_one_out is None for result in tuning.results):
            rows = [row[:2] + row[3:] for row in rows]
        yield from _table(rows)
        yield ""
    yield from _remarks(tuning)
    if tuning.sandbox:
        changes = "; ".join(tuning.sandbox)
        yield f"Changed in every arm, to run next to the machine's own server: {changes}."
    if tuning.diff:
        yield ""
        kept = [r.knob for r in tuning.results if r.knob.name in tuning.kept]
        yield from (f"{knob.name}: {' '.join(knob.why.split())}" for knob in kept)
        yield "\n" + tuning.diff.rstrip("\n")
    yield ""
    yield from _verdict(tuning)
    if tuning.confirm:
        is_left = any(one.decision is Decision.ACCEPTED for one in tuning.results)
        yield f"{'To confirm' if is_left else 'For more precision'}: {tuning.confirm}"


def headline(tuning: TuningResult) -> str:
    """The verdict without what would confirm it, on one line."""
    return " ".join(_verdict(tuning))


def _workload(tuning: TuningResult) -> str:
    """The load that costs were compared at."""
    found = [r.alone for r in tuning.results if r.alone and r.knob.objective is KnobGoal.COST]
    timed = [one for one in found if one.connections]
    if not timed:
        return ""
    connections = _count(timed[0].connections, "connection")
    return f", {timed[0].load.text} over {connections}"


def _remarks(tuning: TuningResult) -> Iterator[str]:
    """What the table does not say, of knobs with the same words together."""
    said: dict[str, list[str]] = {}
    for result in tuning.results:
        if result.decision not in WITHOUT_SENTENCE:
            said.setdefault(f"{result.decision}. {_sentence(result)}", []).append(result.knob.name)
    yield from (f"{', '.join(names)}: {words}" for words, names in said.items())
    reasons: dict[str, list[str]] = {}
    for name, why in tuning.skipped.items():
        reasons.setdefault(why, []).append(name)
    if reasons:
        texts = (f"{', '.join(names)} ({why})" for why, names in reasons.items())
        yield f"Not tried: {'; '.join(texts)}."


def _verdict(tuning: TuningResult) -> Iterator[str]:
    """What is proven, and what was measured and is not."""
    if not tuning.finished:
        yield f"The tuning of {tuning.target} was interrupted; what it measured until then stands."
    if tuning.proven:
        yield f"Proven for {tuning.target}: {'; '.join(_proven(tuning))}."
    paying = [r for r in tuning.results if r.decision is Decision.ACCEPTED]
    left = [result for result in paying if result.knob.name not in tuning.kept]
    if left:
        alone = "; ".join(
            f"{r.knob.name} {ratio(r.alone.ratio if r.alone else None)}" for r in left
        )
        confirmed = (tuning.combined, tuning.full_load)
        tried = [f"; there: {_effect(one)}" for one in confirmed if one and not tuning.proven]
        yield f"Measured, and not confirmed on new blocks: {alone}, alone{''.join(tried)}."
    elif tuning.finished and not tuning.proven:
        yield _nothing(tuning)


def _proven(tuning: TuningResult) -> Iterator[str]:
    """The accepted knobs, by the objective that they were judged by."""
    judged = {r.knob.name: r.knob.objective for r in tuning.results}
    for by, comparison, what in (
        (KnobGoal.COST, tuning.combined, COST),
        (KnobGoal.RATE, tuning.full_load, TIME),
    ):
        names = [name for name in tuning.kept if judged[name] is by]
        if names and comparison:
            yield f"{join_names(names)} {_effect(comparison, what)}"


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


def _sentence(result: KnobResult) -> str:
    sentence = result.sentence
    return f"{sentence[:1].upper()}{sentence[1:]}." if sentence else ""


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
