"""The rules of causes: each a pure function of the observations, with a finding or None."""

import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath

from jissoku.explain import started, waiting
from jissoku.explain.causes import INSTEAD, WORK, finding, format_saving, format_time
from jissoku.model import ACHIEVED_MIN, plural
from jissoku.model.explanation import Finding, Observations, SyscallObservation

Rule = Callable[[Observations], Finding | None]

# What happens at every second request or more often belongs to requests.
PER_REQUEST_MIN = 0.5

# One question or two per request are what applications do, and this many are a loop of them.
TRIPS_MIN = 5
ADDRESSES_SHOWN = 3

# Files that the C library reads for each lookup of a name, which are reported there.
OF_LOOKUPS = frozenset(
    f"/etc/{name}" for name in ("gai.conf", "host.conf", "hosts", "nsswitch.conf", "resolv.conf")
)

# A thread with less CPU time than this fraction of the busiest one's is not a worker.
WORKER_SHARE = 0.1

# A thread that ran or waited for a core for less than this fraction of the time under load could
# have done more. The fraction is not larger because the generator needs a core.
WORKER_BUSY_MIN = 0.3

# With this many connections per core no worker is without any by chance.
CONNECTIONS_MIN = 8

# A connection costs as much as a few requests; spread over more answers it is below the noise.
ANSWERS_MAX = 100

# Interpreters whose threads run in turns; in a build of Python whose name ends in t they do not.
LOCKED = re.compile(r"(python|pypy|ruby)[\d.]*")
USER_MIN = 0.6

# Threads of one process that use about one core in total wait for one lock.
ONE_CORE = (0.8, 1.15)

# Of the CPU time in the lock of an interpreter: less is not worth a sentence.
LOCK_SHARE_MIN = 0.05

# Waiting connections cost a little through their memory; a scanned list costs in proportion to
# their number. With 16,000 of them medians grew 1.63 to 1.97 times with a list, and 1.00 to 1.06
# times with a timer wheel and in Go, while twenty other processes competed for two virtual cores.
GROWTH_MIN = 1.35

# A wait in whole milliseconds is late by one, and a busy machine by another.
LATE_NS_MAX = 5_000_000

SENDS = ("write", "writev", "sendto", "sendmsg", "sendfile")
RECEIVES = ("recvfrom", "read", "recvmsg", "readv", "recv")

# Calls that read files only; their least number per request, and the least size of the answer. A
# small file that is read once costs less than a call that sends it from where it is.
FILE_READS = ("pread64", "preadv", "preadv2")
FILE_READS_MIN = 2
COPIED_BYTES_MIN = 64 * 1024

# Calls that belong to opening a file, reported there.
OF_FILES = frozenset(["fstat", "fcntl", "ioctl", "lseek", "mmap", "munmap"])

# On a busy machine 13 to 15 % were measured with an injected thundering herd (a worker whose
# listener is empty again when it runs goes back to sleep inside the kernel), and 4 % with Go, whose
# threads hand the listener to one another.
SPURIOUS_MIN = 0.08

# Below this a value in microseconds would read as 0.0.
SMALL_NS = 100


def idle_cores(observed: Observations) -> Finding | None:
    """Counts the threads that worked, and compares them with the cores."""
    load = observed.load
    if load is None or not load.threads or load.connections < CONNECTIONS_MIN * load.cores:
        return None
    busiest = max(load.threads, key=lambda thread: thread.cpu_ns)
    workers = sum(thread.cpu_ns >= WORKER_SHARE * busiest.cpu_ns for thread in load.threads)
    wanted_ns = busiest.cpu_ns + busiest.wait_ns
    if wanted_ns < WORKER_BUSY_MIN * load.threads_ns or workers > load.cores / 2:
        return None
    idle = len(load.threads) - workers
    return finding(
        "idle-cores",
        f"the busiest thread, {busiest.name}, ran or waited for a core"
        f" {wanted_ns / load.threads_ns:.0%} of the time, under"
        f" {load.connections} {plural(load.connections, 'connection')}",
        f"{idle} other {plural(idle, 'thread')} of the target had less than a tenth of its"
        " CPU time",
        who="One thread does" if workers == 1 else f"{workers} threads do",
        cores=load.cores,
        factor=f"{load.cores / workers:.1f}",
    )


def delayed_acknowledgement(observed: Observations) -> Finding | None:
    """Compares a client that delays acknowledgements with one that sends them immediately."""
    wire = observed.wire
    if wire is None or not wire.latency_ns_acknowledged or not wire.segments:
        return None
    # Linux delays an acknowledgement by 40 ms at the least (TCP_DELACK_MIN).
    stalled = [ns for ns in wire.latency_ns if ns >= 30_000_000]
    if len(stalled) < len(wire.latency_ns) / 4:
        return None
    prompt_ns = statistics.median(wire.latency_ns_acknowledged)
    stall_ns = statistics.median(stalled)
    segments = statistics.median(wire.segments)
    # Without the delay latency must be much lower; else the delay is not the cause.
    if prompt_ns * 3 > stall_ns or segments < 2:
        return None
    prompt, stall = format_time(prompt_ns), format_time(stall_ns)
    return finding(
        "delayed-acknowledgement",
        f"{len(stalled)} of {len(wire.latency_ns)} lone answers took {stall}, the kernel's"
        " delay of an acknowledgement",
        f"a client that acknowledges at once waited {prompt}",
        f"{segments:g} segments for an answer of {wire.answer_size:,} bytes",
        prompt=prompt,
        stall=stall,
    )


def connection_closed(observed: Observations) -> Finding | None:
    """Checks after how many answers connections ended."""
    wire, syscalls = observed.wire, observed.syscalls
    count = None if wire is None else wire.answers_until_close
    if count is None or count > ANSWERS_MAX:
        return None
    evidence = [f"a connection ended after {count} {plural(count, 'answer')}"]
    if syscalls is not None:
        evidence.append(
            f"{syscalls.connections} new {plural(syscalls.connections, 'connection')} for"
            f" {syscalls.requests} {plural(syscalls.requests, 'request')} under the trace"
        )
    never = "Keep-alive is off: each connection ends with its first answer"
    return finding(
        "connection-closed",
        *evidence,
        ending=never if count == 1 else f"Each connection is ended after {count} answers",
        saving=_saving(observed, "connection", 1 / count),
    )


def upstream_no_keepalive(observed: Observations) -> Finding | None:
    """Counts connections that the target opened itself."""
    syscalls = observed.syscalls
    opened = Counter(syscalls.connected if syscalls is not None else {})
    if syscalls is None or not _is_frequent(syscalls, opened.total()):
        return None
    ranked = opened.most_common(ADDRESSES_SHOWN)
    return finding(
        "upstream-no-keepalive",
        *(
            f"{n / syscalls.requests:.2f} connections per request to {_named(to)}"
            for to, n in ranked
        ),
        where=_named(ranked[0][0]),
        saving=_saving(observed, "connection", opened.total() / syscalls.requests),
    )


def _named(address: str) -> str:
    return address or "another server"


def many_round_trips(observed: Observations) -> Finding | None:
    """Counts answers on connections that the target opened, and transactions on files."""
    syscalls = observed.syscalls
    if syscalls is None:
        return None
    trips, transactions = Counter(syscalls.round_trips), Counter(syscalls.transactions)
    ranked = (trips + transactions).most_common(ADDRESSES_SHOWN)
    many = [(to, n / syscalls.requests) for to, n in ranked if n >= TRIPS_MIN * syscalls.requests]
    if not many:
        return None
    evidence = [
        f"{each:.1f} {'transactions' if to in transactions else 'answers'} per request of"
        f" {_named(to)}, in turn"
        for to, each in many
    ]
    to, each = many[0]
    return finding("many-round-trips", *evidence, where=_named(to), each=f"{each:.0f}")


def name_lookup(observed: Observations) -> Finding | None:
    """Counts queries of a name service, and uses of the files that it reads."""
    syscalls = observed.syscalls
    if syscalls is None or not _is_frequent(syscalls, syscalls.name_lookups):
        return None
    each = syscalls.name_lookups / syscalls.requests
    return finding(
        "name-lookup",
        f"{each:.2f} lookups per request, by queries or by /etc/hosts",
        saving=_saving(observed, "openat", each),
    )


def interpreter_bound(observed: Observations) -> Finding | None:
    """Checks the processes' programs, and their CPU time outside the kernel."""
    load, profile = observed.load, observed.profile
    if load is None or load.cpu_user_fraction is None or load.cpu_user_fraction < USER_MIN:
        return None
    names = {PurePosixPath(program.executable).name for program in load.processes}
    found = sorted(name for name in names if waiting.INTERPRETERS.fullmatch(name))
    if not found:
        return None
    evidence = [f"{load.cpu_user_fraction:.0%} of its CPU time is spent outside the kernel"]
    lock = profile.share(WORK["lock-of-an-interpreter"].matches).share if profile else 0.0
    if lock >= LOCK_SHARE_MIN:
        evidence.append(f"{lock:.0%} of the CPU time passes its lock from thread to thread")
    kernel = f"{1 - load.cpu_user_fraction:.0%}"
    return finding("interpreter-bound", *evidence, interpreters=", ".join(found), kernel=kernel)


def interpreter_lock(observed: Observations) -> Finding | None:
    """Looks for threads of one interpreter that use about one core in total, beside idle ones.

    Native threads of such a process, as of a server written in Rust, use about one core at some
    rates, too: most of the time has to be outside the kernel, or spent on the lock.
    """
    load, profile = observed.load, observed.profile
    if load is None or load.cores < 2:
        return None
    # With fewer idle cores, nothing waits for a lock alone.
    if load.cpu_cores + (load.generator_cpu_cores or 0.0) > load.cores - 0.3:
        return None
    lock = profile.share(WORK["lock-of-an-interpreter"].matches).share if profile else 0.0
    if (load.cpu_user_fraction or 0.0) < USER_MIN and lock < LOCK_SHARE_MIN:
        return None
    least, most = (part * load.threads_ns for part in ONE_CORE)
    for program in load.processes:
        name = PurePosixPath(program.executable).name
        times = [thread.cpu_ns for thread in load.threads if thread.pid == program.pid]
        workers = sum(ns >= WORKER_SHARE * max(times) for ns in times)
        if LOCKED.fullmatch(name) and workers > 1 and least <= sum(times) <= most:
            used = sum(times) / load.threads_ns
            evidence = [f"{workers} threads of {name} use {used:.2f} cores of {load.cores}"]
            if lock >= LOCK_SHARE_MIN:
                evidence.append(f"{lock:.0%} of the CPU time passes the lock on")
            return finding("interpreter-lock", *evidence, factor=load.cores)
    return None


def _path_rule(
    name: str, paths_of: Callable[[SyscallObservation], dict[str, int]], call: str, what: str
) -> Rule:
    """Whether most requests make a call with a path; the most frequent paths are evidence."""

    def rule(observed: Observations) -> Finding | None:
        syscalls = observed.syscalls
        paths = paths_of(syscalls) if syscalls is not None else {}
        paths = {path: n for path, n in paths.items() if path not in OF_LOOKUPS}
        count = sum(paths.values())
        if syscalls is None or not _is_frequent(syscalls, count):
            return None
        each = count / syscalls.requests
        ranked = sorted(paths.items(), key=lambda item: (-item[1], item[0]))
        return finding(
            name,
            f"{each:.2f} {what} per request",
            *(f"{path}: {n / syscalls.requests:,.2f} per request" for path, n in ranked[:3]),
            saving=_saving(observed, call, each),
        )

    return rule


open_per_request = _path_rule(
    "open-per-request", lambda calls: calls.opened, "openat", "successful opens"
)
# The file system is queried for a path without opening it (stat and similar).
stat_per_request = _path_rule(
    "stat-per-request", lambda calls: calls.path_queries, "newfstatat", "lookups"
)
access_log = _path_rule(
    "access-log", lambda calls: _log_files(calls, are_verbose=False), "write", "writes to files"
)
verbose_log = _path_rule(
    "verbose-log", lambda calls: _log_files(calls, are_verbose=True), "write", "writes to files"
)


def file_copied(observed: Observations) -> Finding | None:
    """Counts reads of files in pieces, of which a large answer consists."""
    syscalls, wire = observed.syscalls, observed.wire
    if syscalls is None or wire is None or wire.answer_size < COPIED_BYTES_MIN:
        return None
    made = _frequent(syscalls, syscalls.counts, FILE_READS)
    if sum(made.values()) < FILE_READS_MIN:
        return None
    size = f"{wire.answer_size / 1024:,.0f} KiB"
    calls = ", ".join(f"{name}: {count:.2f} per request" for name, count in made.items())
    return finding("file-copied", f"{calls}, for an answer of {size}", size=size)


def _log_files(syscalls: SyscallObservation, *, are_verbose: bool) -> dict[str, int]:
    # An access log has a line or two for each request.
    most = 5 * syscalls.requests
    return {path: n for path, n in syscalls.logged.items() if (n > most) is are_verbose}


def linear_timers(observed: Observations) -> Finding | None:
    """Compares CPU time per request while other connections are idle and while they wait.

    Answers that wait for acknowledgements come in batches of changing size: with eight connections
    the cost of one then differs by a half from load to load.
    """
    timers = observed.timers
    if timers is None or delayed_acknowledgement(observed):
        return None
    if timers.cost_growth < GROWTH_MIN or not timers.is_growth_proven:
        return None
    waiting, idle = format_time(timers.cpu_ns_waiting), format_time(timers.cpu_ns_idle)
    evidence = [
        (
            f"{waiting} of CPU time per request while {timers.waiting:,} others waited, {idle}"
            " while as many connections were open and idle"
        )
    ]
    if timers.control_ns_idle:
        evidence.append(
            "a second copy without such connections, under the same load at the same time, took"
            f" {format_time(timers.control_ns_waiting)} and {format_time(timers.control_ns_idle)}"
        )
    saving = format_time(timers.cpu_ns_waiting * (1 - 1 / timers.cost_growth))
    return finding("linear-timers", *evidence, saving=saving, waiting=f"{timers.waiting:,}")


def coarse_timers(observed: Observations) -> Finding | None:
    """Compares the lateness of isolated delayed answers with a limit.

    An answer that waits for the acknowledgement does not wait for a timer.
    """
    timers = observed.timers
    if timers is None or timers.lateness_ns < LATE_NS_MAX or delayed_acknowledgement(observed):
        return None
    late = format_time(timers.lateness_ns)
    return finding("coarse-timers", f"{late} late at the median of lone delayed answers", late=late)


def split_answer(observed: Observations) -> Finding | None:
    """Counts segments per answer, of answers that fit into one segment."""
    wire, syscalls = observed.wire, observed.syscalls
    if wire is None or not wire.segments or wire.answer_size > wire.segment_size:
        return None
    per_answer = statistics.median(wire.segments)
    if per_answer < 2 or delayed_acknowledgement(observed) is not None:
        return None
    size, room = f"{wire.answer_size:,} bytes", f"{wire.segment_size:,}"
    evidence = [f"{per_answer:g} segments for an answer of {size}; one holds {room}"]
    if syscalls is not None:
        sends = [
            f"{syscalls.counts[name] / syscalls.requests:,.2f} {name}"
            for name in SENDS
            if syscalls.counts.get(name)
        ]
        evidence.append(f"per request: {', '.join(sends)}")
    return finding("split-answer", *evidence)


def avoidable_syscalls(observed: Observations) -> Finding | None:
    """Lists the avoidable calls that most requests made."""
    syscalls = observed.syscalls
    if syscalls is None:
        return None
    opens = open_per_request(observed) is not None
    made = {
        name: count
        for name, count in _frequent(syscalls, syscalls.counts, INSTEAD).items()
        if not (opens and name in OF_FILES)
    }
    again = _frequent(syscalls, syscalls.eagain, RECEIVES)
    if not made and not again:
        return None
    prices = observed.syscall_cost_ns
    evidence = []
    for name, count in made.items():
        price = prices.get(name)
        cost = f", at most {format_time(price)} each on this machine" if price else ""
        evidence.append(f"{name}: {count:.2f} per request{cost}")
    evidence += [f"{name}: {n:.2f} per request that found nothing" for name, n in again.items()]
    instead = [f"{name}: {INSTEAD[name]}" for name in made]
    instead += [f"{name}: wait after a short read instead of reading on" for name in again]
    ns = sum(count * prices.get(name, 0.0) for name, count in made.items())
    return finding(
        "avoidable-syscalls",
        *evidence,
        calls=", ".join(made | again),
        saving=format_saving(observed, ns),
        instead="; ".join(instead),
    )


def _frequent(
    syscalls: SyscallObservation, counts: dict[str, int], names: Iterable[str]
) -> dict[str, float]:
    """Calls per request of these names, without those of new connections, if most requests do."""
    # Each new connection accounts for some calls of one name.
    connecting = 3 * syscalls.connections
    each = {name: (counts.get(name, 0) - connecting) / syscalls.requests for name in names}
    return {name: count for name, count in each.items() if count >= PER_REQUEST_MIN}


def thundering_herd(observed: Observations) -> Finding | None:
    """Counts wake-ups without a connection to accept, for connections that arrive one at a time."""
    syscalls = observed.syscalls
    if syscalls is None or not syscalls.isolated_connections:
        return None
    wakeups, connections = syscalls.spurious_wakeups, syscalls.isolated_connections
    if wakeups < SPURIOUS_MIN * connections:
        return None
    return finding(
        "thundering-herd",
        f"{wakeups} spurious wake-ups for {connections} isolated connections (an accept that"
        " returned EAGAIN right after a wait that reported an event)",
    )


def memory_per_connection(observed: Observations) -> Finding | None:
    """Divides the memory that idle connections added by their number."""
    memory = observed.memory
    if memory is None or not memory.connections:
        return None
    each = (memory.rss_bytes_after - memory.rss_bytes_before) / memory.connections
    if each < 32 * 1024:
        return None
    return finding(
        "memory-per-connection",
        f"{each / 1024:,.0f} KiB for each of {memory.connections} connections that had"
        " asked once and said nothing since",
        mebibytes=f"{each * 10_000 / 1024**2:,.0f}",
    )


def accept_queue_overflow(observed: Observations) -> Finding | None:
    """Checks the counter of the target's listening sockets, or that of the whole machine."""
    count = observed.load.listen_overflows if observed.load is not None else None
    if not count:
        return None
    were = plural(count, "connection was", "connections were")
    return finding("accept-queue-overflow", f"{count:,} {were} turned away under load")


def queueing(observed: Observations) -> Finding | None:
    """Compares the offered rate of an open loop with the answered rate."""
    load = observed.load
    if load is None or not load.rate_rps_offered or not load.duration_ns:
        return None
    achieved = load.requests * 1e9 / load.duration_ns
    if achieved >= ACHIEVED_MIN * load.rate_rps_offered:
        return None
    return finding(
        "queueing",
        f"{achieved:,.0f} answers per second of {load.rate_rps_offered:,.0f} offered",
        f"latency at the 99th percentile: {format_time(load.latency_ns_p99)}",
    )


def generator_bound(observed: Observations) -> Finding | None:
    """Checks the load generator's busiest thread, unless it busy-polls as in an open loop."""
    load = observed.load
    if load is None or load.rate_rps_offered is not None:
        return None
    busy = load.generator_busy_fraction
    if busy < 0.9:
        return None
    return finding("generator-bound", f"its busiest thread was at work {busy:.0%} of the time")


def kernel_threads(observed: Observations) -> Finding | None:
    """Compares CPU time of the kernel's threads with that of the target's processes."""
    load = observed.load
    if load is None or not load.is_served_by_kernel:
        return None
    own_ns = (load.cpu_ns or 0) / load.requests
    own = format_time(own_ns) if own_ns >= SMALL_NS else f"less than {format_time(SMALL_NS)}"
    kernel = format_time((load.kernel_cpu_ns or 0) / load.requests)
    return finding("kernel-threads", f"kernel threads used {kernel} per answer, it {own}")


def _is_frequent(syscalls: SyscallObservation, count: int) -> bool:
    return count >= PER_REQUEST_MIN * syscalls.requests


def _saving(observed: Observations, call: str, count: float) -> str:
    """What this many calls per request cost, as measured on this machine."""
    return format_saving(observed, count * observed.syscall_cost_ns.get(call, 0.0))


RULES: tuple[Rule, ...] = (
    started.debug_build,
    started.development_server,
    started.compression_unasked,
    waiting.blocked_event_loop,
    waiting.worker_limit,
    many_round_trips,
    waiting.disk_per_request,
    idle_cores,
    delayed_acknowledgement,
    waiting.time_without_cpu,
    connection_closed,
    upstream_no_keepalive,
    name_lookup,
    interpreter_lock,
    interpreter_bound,
    open_per_request,
    stat_per_request,
    file_copied,
    access_log,
    verbose_log,
    linear_timers,
    coarse_timers,
    split_answer,
    avoidable_syscalls,
    thundering_herd,
    memory_per_connection,
    accept_queue_overflow,
    queueing,
    generator_bound,
    kernel_threads,
)
