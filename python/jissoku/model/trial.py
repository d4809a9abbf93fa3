"""One trial: its measurements, or its failure; and the events of a run."""

from enum import StrEnum

import msgspec

from jissoku.model.run import Workload

SCHEMA = "jissoku.trial/2"

# A single-target trial has the total rate of both arms of a paired trial. The cost of a request
# depends on how often its core sleeps: alone, at one arm's rate, it would cost a third more.
SINGLE_RATE_FACTOR = 2

# The least part of the offered requests that is answered at a rate that is reached.
ACHIEVED_MIN = 0.99


class TrialKind(StrEnum):
    """The kind of a trial, and the metrics it gives."""

    TIME_SLICED = "time-sliced"  # arms one at a time in slices: CPU per request, latency
    PAIRED = "paired"  # two similar arms at the same time: CPU per request
    CLOSED_LOOP = "closed-loop"  # one arm, closed loop: rate, memory
    FIXED_RATE = "fixed-rate"  # one arm alone at a fixed rate: the cross-check of the other kinds
    CAPACITY = "capacity"  # one arm: the highest rate that meets an objective, by search

    @property
    def is_joint(self) -> bool:
        """Whether several arms share the trial."""
        return self in {TrialKind.TIME_SLICED, TrialKind.PAIRED}

    @property
    def is_cost(self) -> bool:
        return self.is_joint or self is TrialKind.FIXED_RATE


class TrialStage(StrEnum):
    START = "start"
    READY = "ready"
    VERIFY = "verify"
    LOAD = "load"
    STOP = "stop"


class Condition(StrEnum):
    """How much other programs used the cores of a measurement; part of every result."""

    QUIET = "quiet"
    SHARED = "shared"
    BUSY = "busy"


class CheckOutcome(StrEnum):
    WARNING = "warning"  # the values are valid, with a warning on their use
    REJECT = "reject"  # the load generator was stopped: the trial is counted and repeated
    INVALID = "invalid"  # the answers or the accounting are wrong: the values are invalid


class FailedCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A failed check of one trial; passed checks are not recorded."""

    name: str
    outcome: CheckOutcome
    message: str
    arm: str = ""

    def is_wrong_answer(self, arm: str) -> bool:
        return self.outcome is CheckOutcome.INVALID and self.arm == arm


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Nanoseconds from the intended send time to the last byte of the answer."""

    p50: int
    p90: int
    p99: int
    p999: int
    max: int
    mean: int
    min: int


class VerifiedResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The response by which an arm was verified, before any load.

    Arms are comparable when status, type and body agree; the rest of the head may differ. A body
    with a content coding (gzip) has a second hash, without it.
    """

    status: int
    content_type: str
    body_sha256: str
    body_bytes: int
    head_bytes: int
    content_sha256: str = ""


class TimeSlice(msgspec.Struct, frozen=True, kw_only=True):
    """One slice of an arm in a time-sliced trial, and its rotation: one slice of every arm.

    Attributes:
        wait_ns: How long threads of the target were ready and had no core; None if this kernel does
            not count it. The time of a wake-up is a part of it.
        runs: How often one of them got a core.
        generator_wait_ns: As `wait_ns`, of the load generator.
        rotation_cpu_ns: CPU time of the target in the rotation; None if it is unknown.
        rotation_foreign_ns: CPU time of everything else on the targets' cores in the rotation, of
            other programs and of the kernel, to about 10 ms; None if it is unknown, and on cores
            that targets and load generator share.
    """

    requests: int
    duration_ns: int
    wait_ns: int | None
    runs: int | None
    generator_wait_ns: int | None
    rotation_ns: int
    rotation_cpu_ns: int | None
    rotation_foreign_ns: int | None = None


class ArmMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """One arm's measurements in a trial: requests and latency, and the server's CPU time.

    Attributes:
        requests: Complete and correct answers within the window.
        errors: Count by kind (connect, read, write, timeout, status, length, body, malformed,
            closed); every kind is present.
        cpu_ns: CPU time of all processes and threads of the target inside the window.
        cpu_user_fraction: Fraction of that in user space, from 10 ms ticks; None from too few.
        lag_ns_p99: Lateness of sent requests relative to the schedule; None in the closed loop.
        histogram: HdrHistogram V2, deflated, base64; nanoseconds.
        rss_bytes_peak: Resident memory of all the target's processes at the window's end.
        connections_opened: Connections opened in the whole trial, warm-up included.
        active_duration_ns: Time in which this arm was under load in a time-sliced trial; else None.
        slice_cpu_ns: The target's CPU time in each of its own slices, in order. The rest of
            `cpu_ns` was used while other arms were under load: background work.
        slices: More of each of these slices, in the same order; empty in older records.
        idle_cpu_ns_per_s: CPU nanoseconds per second of the idle target, before its first request.
        warmup_requests: Requests to this start of the target before its first measurement.
        warmup_rps: Requests per second of these in the closed loop; None if it is not known.
        listen_limit: How many connections may wait until the target accepts them, which its listen
            queue's length decides; None over Unix sockets, and of another machine.
        listen_drops: How often a connection was turned away because that many waited, in the whole
            trial.
        migrations_per_second: Core migrations of the target's threads in the whole trial, if they
            are known.
        swap_bytes: Memory of all the target's processes that is in swap, at the window's end.
        major_faults: Pages that they waited for in the whole trial, read from disk or swap.
    """

    arm: str
    requests: int
    errors: dict[str, int]
    duration_ns: int
    cpu_ns: int | None
    cpu_user_fraction: float | None
    rate_rps_offered: float | None
    lag_ns_p99: int | None
    latency_ns: Latency
    histogram: str
    per_second: tuple[int, ...]
    rss_bytes_peak: int | None
    connections_opened: int
    bytes_received: int
    response: VerifiedResponse | None = None
    migrations_per_second: float | None = None
    active_duration_ns: int | None = None
    slice_cpu_ns: tuple[int, ...] = ()
    slices: tuple[TimeSlice, ...] = ()
    idle_cpu_ns_per_s: int | None = None
    warmup_requests: int | None = None
    warmup_rps: float | None = None
    listen_limit: int | None = None
    listen_drops: int | None = None
    swap_bytes: int | None = None
    major_faults: int | None = None

    @property
    def active_ns(self) -> int:
        """Time in which this arm was under load: its own time slices, or the whole window."""
        return self.duration_ns if self.active_duration_ns is None else self.active_duration_ns

    def turned_away(self, seen: "MachineConditions") -> int | None:
        """Connections that found its listen queue full; those of the machine if unknown."""
        return seen.listen_overflows if self.listen_drops is None else self.listen_drops

    @property
    def background_cpu_ns(self) -> int | None:
        """CPU time while other arms were under load; None outside of time-sliced trials."""
        if self.cpu_ns is None or self.active_duration_ns is None:
            return None
        return max(0, self.cpu_ns - sum(self.slice_cpu_ns))

    @property
    def background_cores(self) -> float:
        """The same per second in which other arms were under load: cores that it took from them."""
        others_ns = self.duration_ns - self.active_ns
        return (self.background_cpu_ns or 0) / others_ns if others_ns > 0 else 0.0

    @property
    def housekeeping_cpu_ns(self) -> int:
        """CPU time that depends on time, not on requests, while other arms were under load.

        A target running alone would have that time for its own requests. It is estimated from the
        CPU time before the first request, and is at most the background work.
        """
        background = self.background_cpu_ns
        if not background or not self.idle_cpu_ns_per_s or self.active_duration_ns is None:
            return 0
        others_s = max(0, self.duration_ns - self.active_duration_ns) / 1e9
        return min(background, round(self.idle_cpu_ns_per_s * others_s))


class CapacityStep(msgspec.Struct, frozen=True, kw_only=True):
    """One rate that a capacity search tried; `reason` says why it missed the objective.

    `path` has the figures of the path to load hosts, if that took most of the time of a request.
    """

    rate_rps: int
    is_met: bool
    reason: str = ""
    path: str = ""


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """The highest rate that met an objective such as `p99<10ms`; None if no rate did."""

    objective: str
    rate_rps: int | None
    steps: tuple[CapacityStep, ...] = ()


class LoadHostConditions(msgspec.Struct, frozen=True, kw_only=True):
    """What one of several load hosts met during a load. None: it is not known.

    Attributes:
        requests: Complete and correct answers to it within the window.
        latency_ns_p50: The median latency of its requests to the slowest arm.
        lag_ns_p99: Lateness of its requests relative to their schedule.
        longest_stall_ns: As of `MachineConditions`, as are the following ones; those of cores are
            of its load generator's cores.
        wait_fraction: Time in which its load generator was ready and had no core, by the window.
        softirq_fraction: Time of interrupts, most of which are those of packets.
        path_ns: The shortest round trip between its kernel and that of the servers' host, without
            load: a handshake of TCP.
        path_ns_loaded: The median of such round trips during the load, with the queues of the path.
        clock_error_ns: How far its clock may be off after translation.
    """

    requests: int
    latency_ns_p50: int | None = None
    lag_ns_p99: int | None = None
    longest_stall_ns: int | None = None
    wait_fraction: float | None = None
    steal_fraction: float | None = None
    foreign_fraction: float | None = None
    softirq_fraction: float | None = None
    tcp_segments: int | None = None
    tcp_retransmits: int | None = None
    tcp_timeouts: int | None = None
    path_ns: int | None = None
    path_ns_loaded: int | None = None
    clock_error_ns: int | None = None


class MachineConditions(msgspec.Struct, frozen=True, kw_only=True):
    """Machine conditions during a window. None: not available on this kernel.

    Attributes:
        generator_busy_fraction: CPU time of the load generator's busiest thread, divided by the
            window. It has no meaning if that busy-polls between sends (`generator_busy_polls`).
        generator_cpu_cores: CPU time of all the load generator's threads, divided by the window.
        server_cores_busy_fraction: CPU time of the targets, divided by the time of their cores.
        steal_fraction: Steal time, divided by the time of the server's cores; this and the
            following values cover the warm-up, too.
        foreign_fraction: CPU time of foreign processes that ran last on the server's cores, divided
            by the time of these cores; above 1 if their threads used others, too.
        tcp_segments: Segments sent on the whole machine.
        tcp_retransmits: How many of them were lost and sent again, without spurious ones (RFC
            2883).
        tcp_timeouts: Retransmission timers that expired (RFC 6298), after 0.2 s or more.
        longest_stall_ns: The longest time in which a busy-polling load generator did not run.
        kernel_cpu_ns: CPU time of the kernel's own threads in the window, to about a millisecond.
        viewer_cpu_ns: CPU time in the window of `jissoku ui` on this machine; 0 without one.
        cores_idle_before: Idle fraction of the server's cores in the tenth of a second before the
            start, which waits for 0.97 for at most one second.
        target_wait_fraction: Time in which threads of the targets were ready and had no core
            (/proc/PID/task/TID/schedstat), divided by the window; more than 1 with several threads.
        generator_wait_fraction: The same of the load generator.
        round_trip_ns: Of targets on another host: the shortest round trip of a message around the
            trial.
        clock_error_ns: How far the clocks of both hosts may be off after translation: half of that.
        edge_error_ns: How far the instants at which CPU time was read may be from the edges of the
            window and of time slices, with the time between two readings.
        softirq_fraction: Time of interrupts on the server's cores, most of which are those of
            packets, divided by the time of these cores.
        load_hosts: Those that sent the load, if it was not the client of the agent.
    """

    generator_busy_fraction: float
    generator_busy_polls: bool
    generator_cpu_cores: float | None = None
    server_cores_busy_fraction: float | None = None
    steal_fraction: float | None = None
    foreign_fraction: float | None = None
    tcp_segments: int | None = None
    tcp_retransmits: int | None = None
    tcp_timeouts: int | None = None
    listen_overflows: int | None = None
    longest_gap_ns: int | None = None
    longest_stall_ns: int | None = None
    major_faults: int | None = None
    kernel_cpu_ns: int | None = None
    viewer_cpu_ns: int | None = None
    cores_idle_before: float | None = None
    target_wait_fraction: float | None = None
    generator_wait_fraction: float | None = None
    round_trip_ns: int | None = None
    clock_error_ns: int | None = None
    edge_error_ns: int | None = None
    softirq_fraction: float | None = None
    load_hosts: tuple[LoadHostConditions, ...] = ()


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a trial has no measurements; `has_ended`: the target's process ended by itself."""

    stage: TrialStage
    arm: str
    reason: str
    stderr: str = ""
    has_ended: bool = False


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `trials.jsonl`.

    Attributes:
        index: Counts the trials of a run from 0, in their order.
        block: Counts blocks from 0; one block holds one trial of every arm and kind.
        attempt: 0, or how many times this trial was rejected before.
        slice_ns: Nominal length of a time slice, longer where a slice would have too few requests
            (`ArmMeasurement.active_duration_ns` over the number of slices); None in other trials.
        start_index: Counts starts of a run from 0; trials with the same number were measured one
            after the other on the same processes. None in older records: a start for each trial.
        elapsed_s: Seconds from the start of the run to the trial's end; None in older records.
    """

    index: int
    block: int
    kind: TrialKind
    arms: tuple[str, ...]
    workload: Workload
    window_ns: int
    attempt: int = 0
    measurements: tuple[ArmMeasurement, ...] = ()
    conditions: MachineConditions | None = None
    failure: Failure | None = None
    failed_checks: tuple[FailedCheck, ...] = ()
    level: int | None = None
    slice_ns: int | None = None
    start_index: int | None = None
    capacity: Capacity | None = None
    elapsed_s: float | None = None
    schema: str = SCHEMA

    @property
    def load_rps(self) -> int | None:
        """Requests per second to the server's cores under load; None: closed loop."""
        rate = self.workload.rate_rps
        return rate and rate * (SINGLE_RATE_FACTOR if self.kind is TrialKind.PAIRED else 1)

    @property
    def is_valid(self) -> bool:
        return self.failure is None and all(
            check.outcome is CheckOutcome.WARNING for check in self.failed_checks
        )

    def is_valid_for(self, arm: str) -> bool:
        """Whether one arm's values are valid.

        In time slices, wrong answers of one arm do not affect the others; with arms under load at
        the same time, they invalidate the trial.
        """
        if self.kind is not TrialKind.TIME_SLICED:
            return self.is_valid
        return self.failure is None and not any(
            check.outcome is CheckOutcome.REJECT
            or (check.outcome is CheckOutcome.INVALID and check.arm in {"", arm})
            for check in self.failed_checks
        )


class EventKind(StrEnum):
    START = "start"
    NOTE = "note"
    TRIAL = "trial"
    END = "end"


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `events.jsonl`; its kind says which of the fields have a value.

    Attributes:
        pid: Of a start: the process that measures.
        text: The text of a note, or the reason of an early end.
        index, block, trial_kind, arms: Of a trial that has ended, as in its record.
        rejected: Whether a check rejected the trial, which is then run again.
    """

    kind: EventKind
    elapsed_s: float
    pid: int = 0
    text: str = ""
    index: int = 0
    block: int = 0
    trial_kind: TrialKind | None = None
    arms: tuple[str, ...] = ()
    rejected: bool = False
    failure: str = ""
    done: int = 0
    total: int = 0
    seconds_left: float = 0.0
