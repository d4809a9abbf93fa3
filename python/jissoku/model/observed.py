"""External observations of a target: responses, system calls, threads and memory, never its flags.

Each part comes from a trial of its own; a part that could not be had is None, and `lost` says why.
"""

import msgspec

from jissoku.model.profile_observation import ProfileObservation

# No process receives and sends for less.
OWN_NS_MAX = 1_000

# Of the load generator's time. Beside a server that does its own work kernel threads use a
# hundredth.
KERNEL_SHARE_MIN = 0.25


class ProbeFailure(msgspec.Struct, frozen=True, kw_only=True):
    """An observation that failed: its name, the reason, and how to enable it."""

    probe: str
    reason: str
    hint: str


class WireObservation(msgspec.Struct, frozen=True, kw_only=True):
    """Observations of one client with one request at a time, over one connection after the other.

    Attributes:
        latency_ns: Of each answer, from sending the request to the answer's last byte.
        latency_ns_acknowledged: The same from a client that acknowledges every segment at once;
            empty over a Unix socket.
        segments: Data segments that each answer came in (tcp(7), TCP_INFO); empty over a Unix
            socket.
        segment_size: The most that a segment can carry here; 0 over a Unix socket.
        answer_size: Bytes of head and body together.
        answers_until_close: How many answers a connection gave before it ended; None when it was
            still open after `answers_asked`.
    """

    latency_ns: tuple[int, ...]
    latency_ns_acknowledged: tuple[int, ...] = ()
    segments: tuple[int, ...] = ()
    segment_size: int = 0
    answer_size: int
    answers_until_close: int | None
    answers_asked: int


class SyscallObservation(msgspec.Struct, frozen=True, kw_only=True):
    """System calls of all threads while a known number of requests was answered.

    Attributes:
        requests: Answered on connections that were open before the trace began.
        connections: Those that had to be opened meanwhile, because the target had closed others.
        counts: Calls by name.
        eagain: Those of them that found nothing (EAGAIN), by name.
        empty_waits: Waits that ended with no event.
        opened: Successful opens by path.
        path_queries: Other questions about a path (stat and its like), by path.
        logged: Writes to a file, by its path.
        upstream_connections: Connections that the target opened itself.
        isolated_connections: Connections that came one at a time, each when all was quiet, in a
            second trace.
        spurious_wakeups: Wake-ups in that trace that found that another process had taken the
            connection.
        slowdown: How many times longer the requests took under the trace.
    """

    requests: int
    connections: int
    counts: dict[str, int]
    eagain: dict[str, int] = msgspec.field(default_factory=dict)
    empty_waits: int = 0
    opened: dict[str, int] = msgspec.field(default_factory=dict)
    path_queries: dict[str, int] = msgspec.field(default_factory=dict)
    logged: dict[str, int] = msgspec.field(default_factory=dict)
    upstream_connections: int = 0
    isolated_connections: int = 0
    spurious_wakeups: int = 0
    slowdown: float = 1.0


class ThreadUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What a thread did under load.

    Attributes:
        wait_ns: How long it was ready to run, and did not (run-queue delay).
        core: Where it ran last.
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
    """What a process runs.

    Attributes:
        executable: The program's path.
        arguments: As it was started.
        libraries: Paths of the files with code that it has mapped.
    """

    pid: int
    executable: str
    arguments: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()


class LoadObservation(msgspec.Struct, frozen=True, kw_only=True):
    """What the load generator and the kernel counted while the target had much to do.

    Attributes:
        cores: How many the target might run on.
        duration_ns: Of the window in which `requests` and `cpu_ns` were counted.
        threads_ns: How long the target was under load, with the warm-up before that window.
        cpu_user_fraction: None when too little time was used to say.
        generator_cpu_cores: CPU time of all the load generator's threads, of the window.
        kernel_cpu_ns: CPU time of the kernel's own threads in the window, for any process;
            None where this kernel shows none.
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
        """Whether the kernel's threads did a server's work, and the target's processes did not."""
        kernel_ns, own_ns = self.kernel_cpu_ns, self.cpu_ns_per_request
        if not kernel_ns or own_ns is None or own_ns > OWN_NS_MAX:
            return False
        return kernel_ns >= max(self.cpu_ns or 0, KERNEL_SHARE_MIN * (self._generator_cpu_ns or 0))

    @property
    def total_cpu_ns_per_request(self) -> float | None:
        """CPU time of target, load generator and kernel threads, by the answers given meanwhile.

        None where one of them cannot be seen, or the load generator spins while it waits.
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
        """CPU time of all the target's processes, by the answers given meanwhile."""
        return self.cpu_ns / self.requests if self.cpu_ns is not None and self.requests else None


class TimerObservation(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of waiting requests: the same load beside many idle connections, and many waiting ones.

    Attributes:
        waiting: How many.
        cpu_ns_idle: CPU time per request of the load beside the idle ones.
        control_ns_idle: That of a second copy of the target, under the same load at the same time,
            but beside no others; 0 where there can be no copy.
        lateness_ns: How much later than asked for a lone delayed answer came, at the median, less
            how late the asker itself woke up from sleeping as long.
    """

    waiting: int
    cpu_ns_idle: float
    cpu_ns_waiting: float
    control_ns_idle: float = 0.0
    control_ns_waiting: float = 0.0
    lateness_ns: int

    @property
    def cost_growth(self) -> float:
        """Cost ratio of a request, relative to that of the control copy."""
        if not self.control_ns_idle:
            return self.cpu_ns_waiting / self.cpu_ns_idle
        # Holding connections makes no request cheaper: below the copy's cost is noise.
        idle = max(1.0, self.cpu_ns_idle / self.control_ns_idle)
        return self.cpu_ns_waiting / self.control_ns_waiting / idle


class MemoryObservation(msgspec.Struct, frozen=True, kw_only=True):
    """Resident memory without connections, and with many idle ones after one request each."""

    connections: int
    rss_bytes_before: int
    rss_bytes_after: int


class Observations(msgspec.Struct, frozen=True, kw_only=True):
    """All of it.

    Attributes:
        floor_cpu_ns: CPU time per request of the floor, under the same load.
        floor_total_cpu_ns: The same with the load generator's and the kernel threads' own.
        syscall_cost_ns: What a call of some name costs here, from a program that does nothing else.
    """

    wire: WireObservation | None = None
    syscalls: SyscallObservation | None = None
    load: LoadObservation | None = None
    timers: TimerObservation | None = None
    memory: MemoryObservation | None = None
    profile: ProfileObservation | None = None
    floor_cpu_ns: float | None = None
    floor_total_cpu_ns: float | None = None
    syscall_cost_ns: dict[str, float] = msgspec.field(default_factory=dict)
    failures: tuple[ProbeFailure, ...] = ()
