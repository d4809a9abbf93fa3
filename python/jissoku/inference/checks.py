"""Checks of trials and of a run as a whole, and what a rate was bound by.

Wrong responses and inconsistent counts make a trial invalid. A load generator that was stopped
rejects it, and it is repeated. Everything else attaches a warning that limits the use of its
results: other programs on the cores are a condition of the result and never a reason to leave it
out.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from jissoku.inference import estimate, load_hosts, path
from jissoku.inference.late import np, stats
from jissoku.inference.reach import answered, is_behind
from jissoku.inference.texts import said
from jissoku.model import ConnectionMode, plural, times
from jissoku.model.summary import ALPHA, Bottleneck
from jissoku.model.trial import (
    ArmMeasurement,
    CheckOutcome,
    FailedCheck,
    MachineConditions,
    Trial,
    TrialKind,
)
from jissoku.model.wording import percent_text, short_time

SERVER_BUSY_MIN = 0.95
GENERATOR_BOUND_MIN = 0.90

# Three different servers within this of each other more likely share a ceiling than a talent.
CEILING_WITHIN = 0.01
CEILING_ARMS_MIN = 3


def bottleneck(trials: Iterable[MachineConditions]) -> Bottleneck:
    """What trials of one arm were bound by, judged by their medians.

    A load generator thread at 90 % is the limit itself; one that busy-polls is always busy.
    """
    known = list(trials)
    if not known:
        return Bottleneck.UNKNOWN
    generator = statistics.median(one.generator_busy_fraction for one in known)
    if generator >= GENERATOR_BOUND_MIN and not any(one.generator_busy_polls for one in known):
        return Bottleneck.GENERATOR
    seen = [one.server_cores_busy_fraction for one in known]
    busy = [fraction for fraction in seen if fraction is not None]
    if busy and statistics.median(busy) >= SERVER_BUSY_MIN:
        return Bottleneck.SERVER
    if 2 * sum(map(path.is_path_bound, known)) > len(known):
        return Bottleneck.PATH
    return Bottleneck.NEITHER if busy else Bottleneck.UNKNOWN


def common_ceiling(rates: Sequence[tuple[str, float]]) -> tuple[str, ...]:
    """Names of three or more arms whose closed-loop rates agree suspiciously well; or none."""
    ordered = sorted(rates, key=lambda pair: pair[1])
    best: tuple[str, ...] = ()
    for index, (_, low) in enumerate(ordered):
        near = tuple(name for name, rate in ordered[index:] if rate <= low * (1 + CEILING_WITHIN))
        best = max(best, near, key=len)
    return best if len(best) >= CEILING_ARMS_MIN else ()


# /proc counts in steps of 10 ms. A difference of N steps may be N - 1 in truth, so a reading is
# over a limit when it is so without one step.
STEP_NS = 10_000_000

# What the host takes of a busy core is missing from its rate. On the virtual machine of the records
# it takes 1 to 8 % of most closed loops, whose rates vary by a tenth from block to block.
STEAL_WARNING = 0.005
STEAL_BUSY_MIN = 0.90
# An even background takes from all arms alike. Beside an agent of a virtual machine that used 1.5
# to 1.7 % of the core, log ratios at 5,000 requests/s had a standard deviation of 5 to 8 % over 33
# trials; on an undisturbed core it is 4 to 9 %.
FOREIGN_WARNING = 0.01
# Of our own pages a tenth of that is too much.
VIEWER_WARNING = 0.001
# Lost segments that are repaired without a timeout cost about as much as others. A few in a hundred
# thousand are lost or unaccounted for on loopback with bodies of 1 MiB.
RETRANSMITS_MAX = 0.001
# A load generator that waits for a core beside a busy program does so for some milliseconds at a
# time. One that is stopped waits for nothing.
STALL_NS_MIN = 100_000_000
GENERATOR_BUSY_MAX = 0.80
# Of a window: an uncertainty of CPU time as large as the smallest effect that matters.
EDGES_MAX = 0.01
# Nanoseconds beyond the bound of the clocks. While four comparisons ran at once on two cores, all
# targets of a trial worked up to 1.5 ms longer than the bound outside their slices, in 261 trials.
CLOCKS_MAX_NS = 10_000_000
LAG_OF_P50_MAX = 0.10
LAG_NS_MAX = 50_000
LITTLE_OFF_MAX = 0.02
LITTLE_OFF_MAX_MANY = 0.05
LITTLE_MANY = 1000
WINDOWS_APART_MAX = 0.01
DRIFT_MAX = 0.02
DRIFT_ALPHA = 0.01
DRIFT_TURNS_MIN = 4

# A kernel's threads beside a server that does its own work use a hundredth of this.
KERNEL_SHARE_MIN = 0.25

# Of a core, while others are under load. Servers with timers and garbage collection use 0.01 at
# most in the kept records, one that polls without pause half a core.
BACKGROUND_CORES_MAX = 0.1

RATE_WARNING = "rate-bound"

INVALID, REJECT, WARNING = CheckOutcome.INVALID, CheckOutcome.REJECT, CheckOutcome.WARNING


# A failed check: its name, its outcome, and its message, which of an arm's check follows its name.
Finding = tuple[str, CheckOutcome, str]


def trial_checks(trial: Trial) -> tuple[FailedCheck, ...]:
    """The checks that `trial` failed; its present `failed_checks` are ignored.

    A failed trial has no measurements, and passes: there is nothing to check.
    """
    if trial.failure is not None:
        return ()
    of_arms = [
        FailedCheck(name=name, outcome=outcome, message=f"{one.arm}: {text}", arm=one.arm)
        for one in trial.measurements
        for check in MEASUREMENT_CHECKS
        for name, outcome, text in check(trial, one)
    ]
    others = [*_same_window(trial), *_shared_cores(trial), *_capacity_of_path(trial)]
    if trial.conditions is not None:
        others += [found for check in MACHINE_CHECKS for found in check(trial, trial.conditions)]
    return (
        *of_arms,
        *(FailedCheck(name=name, outcome=outcome, message=text) for name, outcome, text in others),
    )


def _right_answers(_: Trial, measurement: ArmMeasurement) -> Iterator[Finding]:
    wrong = {kind: count for kind, count in sorted(measurement.errors.items()) if count}
    if wrong:
        kinds = ", ".join(f"{count} {kind}" for kind, count in wrong.items())
        yield "errors", INVALID, f"missing or wrong responses: {kinds}"
    if measurement.requests == 0:
        yield "no-answers", INVALID, "no response arrived in the window"


def _sound_accounts(trial: Trial, measurement: ArmMeasurement) -> Iterator[Finding]:
    if not measurement.requests:
        return
    latency = measurement.latency_ns
    order = (latency.min, latency.p50, latency.p90, latency.p99, latency.p999, latency.max)
    if list(order) != sorted(order):
        yield "latency-order", INVALID, f"percentiles are not ascending: {order}"
    if measurement.cpu_ns is not None and measurement.cpu_ns <= 0:
        is_kernels = _kernel_works(trial, measurement)
        name = "kernel-cpu" if is_kernels else "no-cpu"
        text = said("checks", name, responses=_responses(measurement))
        yield "no-cpu", WARNING if is_kernels else INVALID, text
    if measurement.bytes_received < measurement.requests:
        size = f"{measurement.bytes_received} {plural(measurement.bytes_received, 'byte')}"
        yield "bytes", INVALID, f"{size} cannot contain {_responses(measurement)}"


def _responses(measurement: ArmMeasurement) -> str:
    return f"{measurement.requests} {plural(measurement.requests, 'response')}"


def _kernel_works(trial: Trial, measurement: ArmMeasurement) -> bool:
    """Whether the kernel's threads did as much as a server, relative to the load generator."""
    seen = trial.conditions
    if seen is None or seen.generator_busy_polls or not seen.generator_cpu_cores:
        return False
    generator_ns = seen.generator_cpu_cores * measurement.duration_ns
    return (seen.kernel_cpu_ns or 0) >= KERNEL_SHARE_MIN * generator_ns


def _connections(trial: Trial, measurement: ArmMeasurement) -> Iterator[Finding]:
    asked, opened = trial.workload.connections, measurement.connections_opened
    if opened < asked:
        were = plural(opened, "connection was", "connections were")
        yield "connections", INVALID, f"{opened} {were} opened, of {asked}"
    elif trial.workload.connection_mode is ConnectionMode.CLOSE:
        if opened < measurement.requests:
            on = f"on {opened} {plural(opened, 'connection')}, one request each expected"
            yield "reuse", INVALID, f"{_responses(measurement)} {on}"
    elif measurement.requests > asked and opened >= measurement.requests:
        yield "no-keep-alive", WARNING, "closes the connection after every answer"
    elif opened > asked:
        yield "reconnects", WARNING, f"closed connections: {opened} were opened for {asked}"


def _little(trial: Trial, measurement: ArmMeasurement) -> Iterator[Finding]:
    """Little's law: in the closed loop, rate times mean latency is the number in flight."""
    workload = trial.workload
    is_closed = workload.rate_rps is None and workload.connection_mode is not ConnectionMode.CLOSE
    if not is_closed or not measurement.requests:
        return
    in_flight = workload.connections * workload.pipeline
    seen = measurement.requests / measurement.duration_ns * measurement.latency_ns.mean
    # What was in flight at an edge counts wholly or not at all, for as long as the longest took.
    rounding = measurement.latency_ns.max / measurement.duration_ns
    limit = max(LITTLE_OFF_MAX_MANY if in_flight > LITTLE_MANY else LITTLE_OFF_MAX, rounding)
    off = seen / in_flight - 1
    if off > limit:
        yield "little", INVALID, said("checks", "many-in-flight", seen=seen, asked=in_flight)
    elif off < -limit:
        yield "little", WARNING, said("checks", "few-in-flight", seen=seen, asked=in_flight)


def _pace(trial: Trial, measurement: ArmMeasurement) -> Iterator[Finding]:
    offered = measurement.rate_rps_offered
    if offered is None or measurement.duration_ns <= 0:
        return
    late_ns = measurement.lag_ns_p99 or 0
    is_late = late_ns > max(LAG_OF_P50_MAX * measurement.latency_ns.p50, LAG_NS_MAX)
    latest = load_hosts.late_host(trial.conditions, late_ns) if is_late else load_hosts.LateHost()
    if is_behind(trial, measurement):
        part = percent_text(answered(measurement) or 0.0)
        text = f"answered {part} of the {offered:,.0f} requests/s offered{latest.late_too}"
        yield "rate-not-reached", WARNING, text
    # Late sends spoil latencies, and a paired trial's are not used.
    if is_late and trial.kind is not TrialKind.PAIRED:
        values = {"late": short_time(late_ns), "of": latest.of, "which": latest.which}
        yield "late-sends", WARNING, said("checks", "late-sends", **values)


def _drift(_: Trial, measurement: ArmMeasurement) -> Iterator[Finding]:
    """Does a request cost the same in both halves of the window? From the CPU time of each slice.

    Costs are what is tested, not counts: an open loop offers the same rate whatever happens. A
    difference of the halves counts where it is large enough and the costs follow a line.
    """
    slices = [math.log(cost) for cost in measurement.slice_cpu_ns if cost > 0]
    half = len(slices) // 2
    if half < DRIFT_TURNS_MIN:
        return
    off = statistics.fmean(slices[-half:]) - statistics.fmean(slices[:half])
    if abs(off) > DRIFT_MAX and estimate.trend(slices) < DRIFT_ALPHA:
        yield "drift", WARNING, said("checks", "drift", change=100 * math.expm1(off))


def _same_window(trial: Trial) -> Iterator[Finding]:
    spans = [measurement.duration_ns for measurement in trial.measurements]
    if len(spans) > 1 and max(spans) - min(spans) > WINDOWS_APART_MAX * max(spans):
        yield "window", INVALID, f"the arms were not measured over the same window: {spans} ns"


def busy_arms(trial: Trial) -> frozenset[str]:
    """The arms that took so much time from the others that slices cannot compare them."""
    return frozenset(
        one.arm for one in trial.measurements if one.background_cores > BACKGROUND_CORES_MAX
    )


def _shared_cores(trial: Trial) -> Iterator[Finding]:
    """An arm that works while the others are under load makes them wait, which batches requests.

    Beside FastPySGI for ASGI, which polls without pause, our server used 1.08 times the CPU time of
    the floor, and 1.5 times without it.
    """
    busy = busy_arms(trial)
    for one in trial.measurements:
        if one.arm in busy:
            text = said("checks", "shared-cores", arm=one.arm, cores=one.background_cores)
            yield "shared-cores", INVALID, text


def _steal(trial: Trial, seen: MachineConditions) -> Iterator[Finding]:
    """Steal is a loss only where the core had work all the time.

    A virtual core that sleeps between requests waits for its host at every wake-up, and the kernel
    counts that as steal: on one machine none while both cores were kept busy for 40 s, and up to
    40 % at 5,000 requests/s. It is part of what a request costs there, for every arm alike.
    """
    if not _is_above(seen.steal_fraction, STEAL_WARNING, trial):
        return
    text = f"another machine took {percent_text(seen.steal_fraction or 0.0)} of the cores (steal)"
    if (seen.server_cores_busy_fraction or 0.0) < STEAL_BUSY_MIN:
        text = f"{text} at wake-ups of a core that sleeps between requests"
    yield "steal", WARNING, text


def _foreign(trial: Trial, seen: MachineConditions) -> Iterator[Finding]:
    """A process counts as a whole, by the core on which it ran last: the fraction may exceed 1."""
    fraction = seen.foreign_fraction
    if fraction is None or not _is_above(fraction, FOREIGN_WARNING, trial):
        return
    name = "foreign-elsewhere" if fraction > 1 else "foreign"
    yield "foreign", WARNING, said("checks", name, share=percent_text(fraction), times=fraction)


def _watched(trial: Trial, seen: MachineConditions) -> Iterator[Finding]:
    """Pages that follow a run are silent while load is sent; anything else is a fault of theirs."""
    used = (seen.viewer_cpu_ns or 0) / trial.window_ns
    if used > VIEWER_WARNING:
        yield "watched", WARNING, f"`jissoku ui` used {100 * used:.2f} % of a core in the window"


def _stall(trial: Trial, seen: MachineConditions) -> Iterator[Finding]:
    """A load generator that spins never sleeps: a long round is time in which it did not run.

    Where it waited for a core, or the host for one, other programs are the reason. What remains is
    a process that was stopped, which sent nothing.
    """
    for name, stall, waited in load_hosts.stalls(seen) if seen.generator_busy_polls else ():
        if stall is not None and stall - waited * trial.window_ns > STALL_NS_MIN:
            yield "stall", REJECT, f"{name} did not run for {stall / 1e6:.1f} ms"


def _edges(trial: Trial, seen: MachineConditions) -> Iterator[Finding]:
    """On another host CPU time is read every millisecond, where the reader has a core."""
    off_ns = seen.edge_error_ns or 0
    if off_ns > EDGES_MAX * trial.window_ns:
        text = f"CPU time was read up to {off_ns / 1e6:.1f} ms away from the edges of the window"
        yield "edges", WARNING, text


def _clocks(trial: Trial, seen: MachineConditions) -> Iterator[Finding]:
    """Clocks that differ by more than their bound show work of every target outside its slices.

    That is a second measurement of the clocks, by the load itself, which knows nothing of round
    trips. A server that works by itself is no reason: the least of all targets counts.
    """
    if seen.edge_error_ns is None or len(trial.arms) < 2:
        return
    outside = [_outside_slices_ns(one) for one in trial.measurements]
    known = [off_ns for off_ns in outside if off_ns is not None]
    if len(known) == len(trial.arms) and min(known) > seen.edge_error_ns + CLOCKS_MAX_NS:
        values = {"off": short_time(min(known)), "bound": short_time(seen.edge_error_ns)}
        yield "clocks", WARNING, said("checks", "clocks", **values)


def _outside_slices_ns(measurement: ArmMeasurement) -> int | None:
    """How long a target worked outside each of its slices at least, at its pace within them.

    Its last responses take their time, and what it does without requests has another reason.
    """
    outside_ns = measurement.background_cpu_ns
    if outside_ns is None or not measurement.slices:
        return None
    outside_ns -= measurement.housekeeping_cpu_ns
    of_one_ns = outside_ns * measurement.active_ns // len(measurement.slices)
    return of_one_ns // max(1, sum(measurement.slice_cpu_ns)) - measurement.latency_ns.p99


def _losses(trial: Trial, seen: MachineConditions) -> Iterator[Finding]:
    """Segments that were lost, which no server is charged with."""
    is_remote = bool(seen.load_hosts) or seen.round_trip_ns is not None
    is_sliced = trial.kind is TrialKind.TIME_SLICED and trial.workload.rate_rps is not None
    is_held = is_remote and is_sliced
    here = path.lost_segments(seen, path.LOST_MAX if is_held else RETRANSMITS_MAX)
    there = list(path.losses(seen))
    if is_held and (here or there):
        every = [f"the servers' host: {here}"] * bool(here) + there
        yield "lossy-slices", WARNING, said("checks", "lossy-slices", losses="; ".join(every))
        return
    if here:
        yield "retransmits", WARNING, here
    for text in there:
        yield "path-losses", WARNING, text


def _counters(trial: Trial, seen: MachineConditions) -> Iterator[Finding]:
    is_known = any(one.listen_drops is not None for one in trial.measurements)
    if seen.listen_overflows and not is_known:  # Else it is said of the target.
        text = f"a listen queue overflowed {times(seen.listen_overflows)}"
        yield "overflows", WARNING, text
    if seen.major_faults:
        faults = plural(seen.major_faults, "fault")
        yield "major-faults", WARNING, f"{seen.major_faults} major page {faults}"


def _generator(trial: Trial, seen: MachineConditions) -> Iterator[Finding]:
    busy = seen.generator_busy_fraction
    if trial.kind is TrialKind.CLOSED_LOOP:
        held = bottleneck([seen])
        if held is not Bottleneck.SERVER:
            text = f"{held}: this rate says nothing about the server's capacity"
            yield RATE_WARNING, WARNING, text
    elif not seen.generator_busy_polls and busy > GENERATOR_BUSY_MAX:
        text = f"the load generator's busiest thread ran {percent_text(busy)} of the time"
        yield "generator-busy", WARNING, text


def _path(trial: Trial, seen: MachineConditions) -> Iterator[Finding]:
    """What lies between load hosts and servers, which no server is charged with."""
    if trial.kind is TrialKind.CLOSED_LOOP and bottleneck([seen]) is Bottleneck.PATH:
        found = path.slowest(seen)
        yield "path", WARNING, f"path-bound: {found.text if found else ''}"
    if text := load_hosts.differing(seen):
        yield "load-hosts-differ", WARNING, text


def _capacity_of_path(trial: Trial) -> Iterator[Finding]:
    """A rate that missed the objective while requests were mostly under way says so."""
    missed = [step for step in trial.capacity.steps if not step.is_met] if trial.capacity else []
    lowest = min(missed, key=lambda step: step.rate_rps, default=None)
    if lowest is not None and lowest.path:
        yield "path", WARNING, f"the capacity is path-bound: {lowest.path}"


def _latency_of_path(trial: Trial, measurement: ArmMeasurement) -> Iterator[Finding]:
    seen = trial.conditions
    is_paced = trial.workload.rate_rps is not None
    if seen is not None and is_paced and (text := path.mostly_path(seen, measurement)):
        yield "path", WARNING, f"latencies are mostly of the path: {text}"


MEASUREMENT_CHECKS: tuple[Callable[[Trial, ArmMeasurement], Iterator[Finding]], ...] = (
    _right_answers, _sound_accounts, _connections, _little, _pace, _drift, _latency_of_path,
)  # fmt: skip
MACHINE_CHECKS: tuple[Callable[[Trial, MachineConditions], Iterator[Finding]], ...] = (
    _steal, _foreign, _watched, _stall, _edges, _clocks, _losses, _counters, _generator, _path,
)  # fmt: skip


def _is_above(fraction: float | None, limit: float, trial: Trial) -> bool:
    """Whether a lost share of the cores' time is above a limit, whatever its rounding."""
    return fraction is not None and fraction - STEP_NS / trial.window_ns > limit


def is_rejected(trial: Trial) -> bool:
    return trial.failure is None and any(one.outcome is REJECT for one in trial.failed_checks)


def uneven_rejection(trials: Sequence[Trial], arms: Sequence[str]) -> Mapping[str, str]:
    """Arms whose trials were rejected more or less often than the others', each with the counts.

    Rejection must be blind: an arm that provokes it would be measured in its best moments only.
    Each arm is held against the rest, with their number taken into account, and only within trials
    of one kind and load: long windows are disturbed more often, and not every arm reaches every
    load. Arms that take part in every trial have no rest.
    """
    strata: dict[object, list[Trial]] = defaultdict(list)
    for trial in trials:
        if trial.kind.is_cost and trial.failure is None:
            strata[trial.kind, trial.load_rps, trial.window_ns].append(trial)
    found = {}
    for arm in arms:
        tables = [table for one in strata.values() if (table := _table(one, arm))]
        if tables and _p_value(tables) < ALPHA / len(arms):
            ours, of_ours, rest, of_rest = np.sum(tables, axis=0)
            found[arm] = (
                f"{ours} of {of_ours} of its trials of cost {plural(ours, 'was', 'were')} rejected,"
                f" of the others' {rest} of {of_rest}: rejection depends on the target"
            )
    return found


def _table(trials: Sequence[Trial], arm: str) -> tuple[int, int, int, int] | None:
    """(rejected, all) with the arm, and the same without it; None where that says nothing."""
    ours = [is_rejected(trial) for trial in trials if arm in trial.arms]
    rest = [is_rejected(trial) for trial in trials if arm not in trial.arms]
    rejected = sum(ours) + sum(rest)
    return (sum(ours), len(ours), sum(rest), len(rest)) if ours and rest and rejected else None


def _p_value(tables: Sequence[tuple[int, int, int, int]]) -> float:
    """Fisher's exact test over several tables: all margins are given, rejections are counted."""
    chances = np.ones(1)
    for ours, of_ours, rest, of_rest in tables:
        counts = np.arange(of_ours + 1)
        given = of_ours + of_rest, ours + rest, of_ours
        chances = np.convolve(chances, stats.hypergeom.pmf(counts, *given))
    seen = chances[sum(ours for ours, *_ in tables)]
    return float(chances[chances <= seen * (1 + 1e-7)].sum())
