"""Checks on one trial that are blind to who is faster.

Wrong answers and broken accounting take the trial out for good. A disturbed machine takes it out
and has it run again. Everything else leaves the number standing, stamped with what it cannot be
used for.
"""

import math
from collections.abc import Callable, Iterator

from jissoku.model import Bound, Conditions, Consequence, Gate, Kind, Lane, Reuse, Trial
from jissoku.stats import saturation

# /proc counts in steps of 10 ms. A difference of N steps may be N - 1 in truth, so a reading is
# over a limit when it is so without its rounding.
STEP_NS = 10_000_000
STEAL_STEPS = 1
FOREIGN_STEPS = 1

STEAL_MAX = 0.005
FOREIGN_MAX = 0.01
GAP_MAX = 0.01
ACHIEVED_MIN = 0.99
GENERATOR_BUSY_MAX = 0.80
LAG_OF_P50_MAX = 0.10
LAG_NS_MAX = 50_000
LITTLE_OFF_MAX = 0.02
LITTLE_OFF_MAX_MANY = 0.05
LITTLE_MANY = 1000
WINDOWS_APART_MAX = 0.01
DRIFT_MAX = 0.02
DRIFT_SECONDS_MIN = 4

# A kernel's threads beside a server that does its own work use a hundredth of this.
KERNEL_SHARE_MIN = 0.25

RATE_STAMP = "rate-bound"


def gates(trial: Trial) -> tuple[Gate, ...]:
    """The checks that `trial` did not pass; what it carries as gates already is not looked at.

    Args:
        trial: With lanes and conditions. A failed trial has no lanes, and passes: there is nothing
            to check.
    """
    if trial.failure is not None:
        return ()
    found = [gate for lane in trial.lanes for check in LANE_CHECKS for gate in check(trial, lane)]
    found += _same_window(trial)
    if trial.conditions is not None:
        found += [gate for check in MACHINE_CHECKS for gate in check(trial, trial.conditions)]
    return tuple(found)


def _right_answers(_: Trial, lane: Lane) -> Iterator[Gate]:
    wrong = {kind: count for kind, count in sorted(lane.errors.items()) if count}
    if wrong:
        kinds = ", ".join(f"{count} {kind}" for kind, count in wrong.items())
        yield _invalid("errors", f"{lane.arm}: not every answer came, or came right: {kinds}", lane)
    if lane.requests == 0:
        yield _invalid("no-answers", f"{lane.arm}: not one answer came in the window", lane)


def _sound_accounts(trial: Trial, lane: Lane) -> Iterator[Gate]:
    latency = lane.latency_ns
    order = (latency.min, latency.p50, latency.p90, latency.p99, latency.p999, latency.max)
    if lane.requests and list(order) != sorted(order):
        yield _invalid("latency-order", f"{lane.arm}: percentiles do not ascend: {order}", lane)
    if lane.requests and lane.cpu_ns is not None and lane.cpu_ns <= 0:
        text = f"{lane.arm}: {lane.requests} answers cost no CPU time of its own"
        if _kernel_works(trial, lane):
            remark = (
                "the kernel's threads worked in its place, charged to nobody. Compare rates, or in"
                " an experiment `together`, which is target, stopwatch and kernel threads as one"
            )
            yield _stamp("no-cpu", f"{text}: {remark}", lane)
        else:
            yield _invalid("no-cpu", f"{text}: the wrong process was watched", lane)
    if lane.requests and lane.bytes_received < lane.requests:
        text = f"{lane.arm}: {lane.bytes_received} bytes cannot hold {lane.requests} answers"
        yield _invalid("bytes", text, lane)


def _kernel_works(trial: Trial, lane: Lane) -> bool:
    """Whether the kernel's threads did as much as a server would, held against the stopwatch."""
    seen = trial.conditions
    if seen is None or seen.spins or not seen.kernel_cpu_ns or not seen.generator_cores:
        return False
    stopwatch_ns = seen.generator_cores * lane.duration_ns
    return seen.kernel_cpu_ns >= KERNEL_SHARE_MIN * stopwatch_ns


def _connections(trial: Trial, lane: Lane) -> Iterator[Gate]:
    asked, opened = trial.workload.connections, lane.connections_opened
    if opened < asked:
        text = f"{lane.arm}: {opened} connections were opened where {asked} were asked for"
        yield _invalid("connections", text, lane)
    elif trial.workload.reuse is Reuse.CLOSE:
        if opened < lane.requests:
            text = (
                f"{lane.arm}: {lane.requests} answers on {opened} connections, each meant for one"
            )
            yield _invalid("reuse", text, lane)
    elif lane.requests > asked and opened >= lane.requests:
        yield _stamp("no-keep-alive", f"{lane.arm}: closes the connection after every answer", lane)
    elif opened > asked:
        text = f"{lane.arm}: closed connections: {opened} were opened to keep {asked}"
        yield _stamp("reconnects", text, lane)


def _little(trial: Trial, lane: Lane) -> Iterator[Gate]:
    """Little's law: in the closed loop, rate times mean latency is the number in flight."""
    workload = trial.workload
    if workload.rate_rps is not None or workload.reuse is Reuse.CLOSE or not lane.requests:
        return
    in_flight = workload.connections * workload.pipeline
    seen = lane.requests / lane.duration_ns * lane.latency_ns.mean
    # What was in flight at an edge counts wholly or not at all, for as long as the longest took.
    rounding = lane.latency_ns.max / lane.duration_ns
    limit = LITTLE_OFF_MAX_MANY if in_flight > LITTLE_MANY else LITTLE_OFF_MAX
    off = seen / in_flight - 1
    if off > max(limit, rounding):
        text = (
            f"{lane.arm}: rate x latency accounts for {seen:.1f} requests in flight of {in_flight}"
        )
        yield _invalid("little", text, lane)
    elif off < -max(limit, rounding):
        text = (
            f"{lane.arm}: rate x latency accounts for only {seen:.1f} of {in_flight} requests in"
            " flight: some connections starved, or the stopwatch was late"
        )
        yield _stamp("little", text, lane)


def _pace(trial: Trial, lane: Lane) -> Iterator[Gate]:
    if lane.rate_rps_offered is None or lane.duration_ns <= 0:
        return
    achieved = lane.requests / (lane.duration_ns / 1e9) / lane.rate_rps_offered
    if achieved < ACHIEVED_MIN:
        text = (
            f"{lane.arm}: answered {_percent(achieved)} of the {lane.rate_rps_offered:,.0f}"
            " requests/s offered: its cost belongs to a lower rate"
        )
        yield _stamp("rate-not-reached", text, lane)
    if trial.kind is Kind.DUET:
        return  # late sends spoil latencies, and a duet's are not used
    limit = max(LAG_OF_P50_MAX * lane.latency_ns.p50, LAG_NS_MAX)
    if lane.lag_ns_p99 is not None and lane.lag_ns_p99 > limit:
        text = (
            f"{lane.arm}: one request in a hundred left {lane.lag_ns_p99 / 1000:,.0f} us late or"
            " more: its latency includes the stopwatch's"
        )
        yield _stamp("late-sends", text, lane)


def _drift(_: Trial, lane: Lane) -> Iterator[Gate]:
    series = lane.per_second
    half = len(series) // 2
    if len(series) < DRIFT_SECONDS_MIN:
        return
    first, second = sum(series[:half]), sum(series[-half:])
    if not first or not second or abs(math.log(first / second)) > DRIFT_MAX:
        text = (
            f"{lane.arm}: {first} answers in the first half of the window, {second} in the second"
        )
        yield _stamp("drift", text, lane)


def _same_window(trial: Trial) -> Iterator[Gate]:
    spans = [lane.duration_ns for lane in trial.lanes]
    if len(spans) > 1 and max(spans) - min(spans) > WINDOWS_APART_MAX * max(spans):
        text = f"the lanes were not measured over the same window: {spans} ns"
        yield Gate(name="window", consequence=Consequence.INVALID, message=text)


def _steal(trial: Trial, seen: Conditions) -> Iterator[Gate]:
    if _is_over(seen.steal_fraction, STEAL_MAX, STEAL_STEPS, trial.window_ns):
        text = f"another machine took {_percent(seen.steal_fraction)} of the cores (steal)"
        yield _reject("steal", text)


def _foreign(trial: Trial, seen: Conditions) -> Iterator[Gate]:
    if _is_over(seen.foreign_fraction, FOREIGN_MAX, FOREIGN_STEPS, trial.window_ns):
        text = f"other programs used {_percent(seen.foreign_fraction)} of the server's cores"
        yield _reject("foreign", text)


def _gap(trial: Trial, seen: Conditions) -> Iterator[Gate]:
    # A spinning stopwatch never waits of its own will: a gap is time in which it was not run.
    gap = seen.longest_gap_ns
    if seen.spins and gap is not None and gap > GAP_MAX * trial.window_ns:
        yield _reject("gap", f"the stopwatch stood still for {gap / 1e6:.1f} ms")


def _counters(trial: Trial, seen: Conditions) -> Iterator[Gate]:
    # At full load a full queue is part of the answer; below it something was disturbed.
    make = _stamp if trial.workload.rate_rps is None else _reject
    if seen.tcp_retransmits:
        yield make("retransmits", f"{seen.tcp_retransmits} TCP segments were sent again")
    if seen.listen_overflows:
        yield make("overflows", f"a listen queue overflowed {seen.listen_overflows} times")
    if seen.major_faults:
        # A server's own pages: one that reads its program late would be rejected more often than
        # the others, and rejection has to be blind. Node did so in 4 of 13 duets, one page each.
        yield _stamp("major-faults", f"{seen.major_faults} pages came from disk")


def _generator(trial: Trial, seen: Conditions) -> Iterator[Gate]:
    busy = seen.generator_busy_fraction
    if trial.kind is Kind.SOLO_RATE:
        held = saturation.bound(seen)
        if held is not Bound.SERVER:
            yield _stamp(RATE_STAMP, f"{held}: this rate says nothing about the server's capacity")
    elif not seen.spins and busy > GENERATOR_BUSY_MAX:
        yield _stamp(
            "generator-busy", f"the stopwatch's busiest thread ran {_percent(busy)} of the time"
        )


LANE_CHECKS: tuple[Callable[[Trial, Lane], Iterator[Gate]], ...] = (
    _right_answers, _sound_accounts, _connections, _little, _pace, _drift,
)  # fmt: skip
MACHINE_CHECKS: tuple[Callable[[Trial, Conditions], Iterator[Gate]], ...] = (
    _steal, _foreign, _gap, _counters, _generator,
)  # fmt: skip


def _is_over(fraction: float | None, limit: float, steps: int, window_ns: int) -> bool:
    return fraction is not None and fraction - steps * STEP_NS / window_ns > limit


def _percent(fraction: float | None) -> str:
    return "" if fraction is None else f"{100 * fraction:.1f} %"


def _invalid(name: str, message: str, lane: Lane) -> Gate:
    return Gate(name=name, consequence=Consequence.INVALID, message=message, arm=lane.arm)


def _reject(name: str, message: str) -> Gate:
    return Gate(name=name, consequence=Consequence.REJECT, message=message)


def _stamp(name: str, message: str, lane: Lane | None = None) -> Gate:
    arm = lane.arm if lane else ""
    return Gate(name=name, consequence=Consequence.STAMP, message=message, arm=arm)
