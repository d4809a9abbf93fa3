"""External observations of a target, and the causes of cost that follow from them."""

from enum import StrEnum

import msgspec

from jissoku.model.profile import ProfileObservation, ProfileRow
from jissoku.model.summary import TuningResult
from jissoku.request import ExplanationRequest

# The cost of an answer below which no process can receive and send.
OWN_NS_MAX = 1_000

# As a fraction of the load generator's CPU time. With an ordinary server kernel threads use about
# one hundredth of it.
KERNEL_SHARE_MIN = 0.25


class ProbeFailure(msgspec.Struct, frozen=True, kw_only=True):
    probe: str
    reason: str
    hint: str


class WireObservation(msgspec.Struct, frozen=True, kw_only=True):
    """Observations of a client with one request at a time and one connection at a time.

    Attributes:
        latency_ns: Of each answer, from sending the request to the last byte of the answer.
        latency_ns_acknowledged: The same from a client that acknowledges every segment at once;
            empty over a Unix socket.
        segments: Data segments of each answer (tcp(7), TCP_INFO); empty over a Unix socket.
        segment_size: Maximum size of a segment here; 0 over a Unix socket.
        answers_until_close: Number of answers after which a connection ended; None if it was still
            open after `answers_asked`.
        server: The field Server of its answers; `powered_by` is X-Powered-By.
        compresses: The content coding of an answer to a client that accepts some, if it has none
            otherwise.
    """

    latency_ns: tuple[int, ...]
    latency_ns_acknowledged: tuple[int, ...] = ()
    segments: tuple[int, ...] = ()
    segment_size: int = 0
    answer_size: int
    answers_until_close: int | None
    answers_asked: int
    server: str = ""
    powered_by: str = ""
    compresses: str = ""


class SyscallObservation(msgspec.Struct, frozen=True, kw_only=True):
    """System calls of all threads while a known number of requests was answered.

    Attributes:
        requests: Answered on connections that were open before the trace began.
        connections: Connections opened meanwhile, because the target had closed others.
        counts: Calls by name.
        eagain: Calls that failed with EAGAIN, by name.
        empty_waits: Waits that returned no event.
        path_queries: Other calls with a path (stat and similar), by path.
        logged: Writes to files, by path.
        connected: Connections that the target opened itself, by address.
        round_trips: Answers that it waited for on such connections, by address.
        transactions: Shared locks that it took on parts of files, as SQLite does, by path.
        synced: Waits for a disk (fsync), by path.
        name_lookups: Queries of a name service, or of its files.
        isolated_connections: Connections opened one at a time on the idle target, in a second
            trace.
        spurious_wakeups: Wake-ups in that trace after which another process had accepted the
            connection.
        slowdown: Duration of the requests under the trace, as a multiple of that without.
    """

    requests: int
    connections: int
    counts: dict[str, int]
    eagain: dict[str, int] = msgspec.field(default_factory=dict)
    empty_waits: int = 0
    opened: dict[str, int] = msgspec.field(default_factory=dict)
    path_queries: dict[str, int] = msgspec.field(default_factory=dict)
    logged: dict[str, int] = msgspec.field(default_factory=dict)
    connected: dict[str, int] = msgspec.field(default_factory=dict)
    round_trips: dict[str, int] = msgspec.field(default_factory=dict)
    transactions: dict[str, int] = msgspec.field(default_factory=dict)
    synced: dict[str, int] = msgspec.field(default_factory=dict)
    name_lookups: int = 0
    isolated_connections: int = 0
    spurious_wakeups: int = 0
    slowdown: float = 1.0


class ThreadUsage(msgspec.Struct, frozen=True, kw_only=True):
    """A thread's use of a core under load: the one on which it ran last.

    `wait_ns` is the time in which it was ready and did not run (run-queue delay).
    """

    pid: int
    tid: int
    name: str
    cpu_ns: int
    wait_ns: int
    switches_voluntary: int
    switches_involuntary: int
    core: int


class ProcessInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The program of a process, its command line, its mapped files with code.

    `variables` are those of its environment that start it for finding errors.
    """

    pid: int
    executable: str
    arguments: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    variables: dict[str, str] = msgspec.field(default_factory=dict)


class ThreadWaits(msgspec.Struct, frozen=True, kw_only=True):
    """Where a thread waited under load, of `looks` looks at it.

    Attributes:
        rest: Where it waited before there was any load; empty for a thread that began later.
        places: System calls with what they waited for, by how often they were met.
        functions: The function of Python, with its line, that waits in each of these calls.
    """

    pid: int
    tid: int
    name: str
    rest: str
    looks: int
    places: dict[str, int]
    functions: dict[str, str] = msgspec.field(default_factory=dict)


class WaitObservation(msgspec.Struct, frozen=True, kw_only=True):
    """All threads of the target, looked at many times while it was under load."""

    looks: int
    threads: tuple[ThreadWaits, ...]


class LoadObservation(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of the load generator and the kernel while the target was under load.

    Attributes:
        cores: Number of cores the target may run on.
        duration_ns: Of the window in which `requests` and `cpu_ns` were counted.
        threads_ns: Time under load, with the warm-up before that window.
        cpu_user_fraction: None if too few ticks were counted.
        generator_cpu_cores: CPU time of all the load generator's threads, divided by the window.
        listen_overflows: Connections that found the listen queue full, of the target's own sockets
            or, where their counters are unknown, of the machine.
        kernel_cpu_ns: CPU time of the kernel's own threads in the window, for any process;
            None if no kernel thread is visible.
    """

    connections: int
    cores: int
    requests: int
    duration_ns: int
    cpu_ns: int | None
    cpu_user_fraction: float | None
    latency_ns_p50: int
    latency_ns_p99: int
    rate_rps_offered: float | None
    generator_busy_fraction: float
    tcp_retransmits: int | None
    listen_overflows: int | None
    threads: tuple[ThreadUsage, ...] = ()
    threads_ns: int = 0
    processes: tuple[ProcessInfo, ...] = ()
    generator_cpu_cores: float | None = None
    kernel_cpu_ns: int | None = None

    @property
    def is_served_by_kernel(self) -> bool:
        """Whether kernel threads did the work of the server instead of the target's processes."""
        kernel_ns, own_ns = self.kernel_cpu_ns, self.cpu_ns_per_request
        if not kernel_ns or own_ns is None or own_ns > OWN_NS_MAX:
            return False
        return kernel_ns >= max(self.cpu_ns or 0, KERNEL_SHARE_MIN * (self._generator_cpu_ns or 0))

    @property
    def total_cpu_ns_per_request(self) -> float | None:
        """CPU time of target, load generator and kernel threads, divided by the answers.

        None if one of them is unknown, or if the load generator busy-polls.
        """
        kernel_ns, generator_ns = self.kernel_cpu_ns, self._generator_cpu_ns
        if self.cpu_ns is None or kernel_ns is None or generator_ns is None or not self.requests:
            return None
        return (self.cpu_ns + generator_ns + kernel_ns) / self.requests

    @property
    def _generator_cpu_ns(self) -> float | None:
        if self.generator_cpu_cores is None or self.rate_rps_offered is not None:
            return None
        return self.generator_cpu_cores * self.duration_ns

    @property
    def cpu_ns_per_request(self) -> float | None:
        return self.cpu_ns / self.requests if self.cpu_ns is not None and self.requests else None

    @property
    def cpu_cores(self) -> float:
        """0 if the CPU time is unknown."""
        return (self.cpu_ns or 0) / self.duration_ns


# Of the 25 pairs of loads, with and without waiting requests, in a comparison of their costs.
CONTRADICTIONS_MAX = 4


class TimerObservation(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of waiting requests: the same load with many idle connections, and with waiting ones.

    Attributes:
        cpu_ns_idle: CPU time per request of the load while they are idle.
        control_ns_idle: That of a second copy of the target under the same load at the same time,
            without other connections; 0 without a copy.
        costs_idle: CPU time per request in each load while they are idle, relative to that of the
            copy, or in nanoseconds without a copy.
        costs_waiting: The same while they wait.
        lateness_ns: Median lateness of isolated delayed answers, minus the lateness of the client's
            own sleep of the same length.
    """

    waiting: int
    cpu_ns_idle: float
    cpu_ns_waiting: float
    control_ns_idle: float = 0.0
    control_ns_waiting: float = 0.0
    costs_idle: tuple[float, ...] = ()
    costs_waiting: tuple[float, ...] = ()
    lateness_ns: int

    @property
    def cost_growth(self) -> float:
        """Cost ratio of a request, relative to that of the control copy."""
        if not self.control_ns_idle:
            return self.cpu_ns_waiting / self.cpu_ns_idle
        # Open connections do not reduce the cost of a request: a lower cost than the copy's is
        # noise.
        idle = max(1.0, self.cpu_ns_idle / self.control_ns_idle)
        return self.cpu_ns_waiting / self.control_ns_waiting / idle

    @property
    def is_growth_proven(self) -> bool:
        """Whether the loads with waiting requests cost more than those with idle connections.

        At most four pairs of loads may contradict: with five loads of each kind and equal costs,
        that happens with probability 12/252 (the U test of Mann and Whitney, 1947). In a load in
        which few requests are answered medians alone differ twofold by chance.
        """
        pairs = [(idle, busy) for idle in self.costs_idle for busy in self.costs_waiting]
        return sum(busy <= idle for idle, busy in pairs) <= CONTRADICTIONS_MAX


class MemoryObservation(msgspec.Struct, frozen=True, kw_only=True):
    """Resident memory without connections, and with many idle ones after one request each."""

    connections: int
    rss_bytes_before: int
    rss_bytes_after: int


class Observations(msgspec.Struct, frozen=True, kw_only=True):
    """All observations of a target, and of the floor's CPU time per request under the same load.

    The total is that with load generator and kernel threads. Costs of system calls are those in a
    loop.
    """

    wire: WireObservation | None = None
    syscalls: SyscallObservation | None = None
    load: LoadObservation | None = None
    waits: WaitObservation | None = None
    timers: TimerObservation | None = None
    memory: MemoryObservation | None = None
    profile: ProfileObservation | None = None
    floor_cpu_ns: float | None = None
    floor_total_cpu_ns: float | None = None
    syscall_cost_ns: dict[str, float] = msgspec.field(default_factory=dict)
    failures: tuple[ProbeFailure, ...] = ()


EXPLANATION_SCHEMA = "jissoku.explanation/1"


class FindingScope(StrEnum):
    SERVER = "server"
    MEASUREMENT = "measurement"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A cause with evidence: the observed values.

    Attributes:
        falsified_by: An observation that would refute the cause.
        effect: The expected one of removing it.
        remedy: For any program.
        setting: What removes it in the server that the target is, or the reason why none does;
            empty for a program that is not known.
    """

    name: str
    cause: str
    evidence: tuple[str, ...]
    falsified_by: str
    effect: str
    remedy: str
    setting: str = ""
    scope: FindingScope = FindingScope.SERVER


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The findings about a target.

    Functions are of its own code and libraries, most expensive first; empty without a profile.
    Changes are a diff of its configuration by its knobs for the findings; the request is as in
    `Run`. Unless it finished, the findings are those of the probes until then, and `until` is what
    ended it, as the end of a sentence; older records leave that out after an interruption.
    """

    target: str
    version: str
    path: str
    observations: Observations
    findings: tuple[Finding, ...]
    functions: tuple[ProfileRow, ...] = ()
    changes: str = ""
    verification: TuningResult | None = None
    request: ExplanationRequest | None = None
    finished: bool = True
    until: str = ""
    schema: str = EXPLANATION_SCHEMA
