"""What one trial brought: measurements or a failure, never a number in place of one."""

from dataclasses import dataclass, field
from enum import StrEnum

from jissoku.model.workload import Workload

SCHEMA = "jissoku.trial/1"

# A solo trial is asked as often as both arms of a duet together. What a request costs depends on
# how often its core sleeps: alone, at a duet's own rate, it would cost a third more.
SOLO_LOAD = 2


class Kind(StrEnum):
    """What a trial is for."""

    DUET = "duet"  # two arms in the same moments: CPU per request
    SOLO_RATE = "solo-rate"  # one arm, closed loop: rate, memory
    SOLO_COST = "solo-cost"  # one arm, the load of a duet: latency, and the check on the duets


class Stage(StrEnum):
    """Where a trial failed."""

    START = "start"
    READY = "ready"
    VERIFY = "verify"
    LOAD = "load"
    STOP = "stop"


class Consequence(StrEnum):
    """What a gate that did not pass does to its trial."""

    STAMP = "stamp"  # the number stands, with a remark on what it may be used for
    REJECT = "reject"  # the machine disturbed the trial: it is run again, and counted
    INVALID = "invalid"  # the answers or the accounting are wrong: no number


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A check on one trial that did not pass; gates that passed are not recorded."""

    name: str
    consequence: Consequence
    message: str
    arm: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Nanoseconds from the intended send time to the last byte of the answer."""

    p50: int
    p90: int
    p99: int
    p999: int
    max: int
    mean: int
    min: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an arm answered when it was verified, before any load.

    Arms are comparable when status, type and body agree; the rest of the head may differ.
    """

    status: int
    content_type: str
    body_sha256: str
    body_bytes: int
    head_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One arm's part in a trial: what the stopwatch counted and what the server used meanwhile.

    Attributes:
        requests: Answers that came whole, and right, inside the window.
        errors: Count by kind (connect, read, write, timeout, status, length, body, malformed,
            closed); every kind is present.
        duration_ns: Length of the window.
        cpu_ns: CPU time of all processes and threads of the target inside the window.
        cpu_user_fraction: Part of that in user space, from 10 ms ticks; None when too few ticks
            fell.
        rate_rps_offered: What the schedule asked for; None in the closed loop.
        lag_ns_p99: How late requests left, against the schedule; None in the closed loop.
        histogram: HdrHistogram V2, deflated, base64; nanoseconds.
        per_second: Answers in each second of the window.
        rss_bytes_peak: Resident memory of all the target's processes at the window's end.
        connections_opened: Connections made in the whole trial, warm-up included.
        migrations_per_second: How often the target's threads changed cores, over the whole trial;
            None where this kernel does not say.
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
    answer: Answer | None = None
    migrations_per_second: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What the machine did during a window. None means that this kernel does not say.

    Attributes:
        generator_busy_fraction: CPU time of the stopwatch's busiest thread, of the window. A
            stopwatch that spins between sends is always at 1; then `spins` is set and this says
            nothing.
        generator_cores: CPU time of all the stopwatch's threads, of the window.
        server_cores_busy_fraction: CPU time of the targets in the window, of their cores' time.
        steal_fraction: Time that the host gave to others, of the server cores' time; this and what
            follows cover the warm-up, too.
        foreign_fraction: CPU time of others' processes on the server cores, of these cores' time.
        tcp_retransmits: Segments that were lost and sent again, on the whole machine; such as had
            arrived (RFC 2883) are not counted.
        kernel_cpu_ns: CPU time of the kernel's own threads in the window, to a millisecond or so.
    """

    generator_busy_fraction: float
    spins: bool
    generator_cores: float | None = None
    server_cores_busy_fraction: float | None = None
    steal_fraction: float | None = None
    foreign_fraction: float | None = None
    tcp_retransmits: int | None = None
    listen_overflows: int | None = None
    longest_gap_ns: int | None = None
    major_faults: int | None = None
    kernel_cpu_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why there is no measurement."""

    stage: Stage
    arm: str
    reason: str
    stderr: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One line of `trials.jsonl`.

    Attributes:
        index: Counts the trials of a run from 0, in the order in which they ran.
        block: Counts blocks from 0; one block holds one trial of every arm and kind.
        attempt: 0, or how many times this trial was rejected before.
        arms: In starting order; a duet's first arm was started first and has the first lane.
        lanes: One per arm; empty when the trial failed.
        gates: Checks that did not pass.
        level: Where on its axis a trial of a sweep ran; None elsewhere.
    """

    index: int
    block: int
    kind: Kind
    arms: tuple[str, ...]
    workload: Workload
    window_ns: int
    attempt: int = 0
    lanes: tuple[Lane, ...] = ()
    conditions: Conditions | None = None
    failure: Failure | None = None
    gates: tuple[Gate, ...] = ()
    level: int | None = None
    schema: str = field(default=SCHEMA)

    @property
    def counts(self) -> bool:
        """Whether the trial's numbers may be used: it did not fail, and no gate took it out."""
        return self.failure is None and all(
            gate.consequence is Consequence.STAMP for gate in self.gates
        )
