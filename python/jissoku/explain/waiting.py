"""The rules of causes that cost time and no CPU time: what requests wait for, and how many do."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from jissoku.explain.causes import finding, format_time
from jissoku.model.explanation import Finding, LoadObservation, Observations, ThreadWaits
from jissoku.model.wording import plural

# Calls in which an event loop waits for whatever comes next.
EVENT_WAITS = ("epoll_wait", "epoll_pwait", "epoll_pwait2", "io_uring_enter")

# Places in which a server may rest; a poll of one descriptor has its name behind it. A futex is how
# threads pass work on, and how they wait for the lock of an interpreter.
REST = (*EVENT_WAITS, "select", "pselect6", "poll", "ppoll", "futex", "rt_sigtimedwait", "wait4")
RESTING = (" its client", " its listener")

INTERPRETERS = re.compile(r"(python|pypy|ruby|perl|php|node|lua)[\d.]*(-fpm)?")

# A lone answer that takes so long, and its processes compute for less than half of it.
SLOW_NS = 2_000_000
COMPUTING_MAX = 0.5

# No more than this fraction of the connections has a request in work, and so much of all cores, or
# of the busiest thread's core, is used.
IN_WORK_MAX = 0.5
CORES_BUSY_MAX = 0.6

PLACES_SHOWN = 3


def lone_ns(observed: Observations) -> int | None:
    """What a tenth of the lone requests took at most, from a client that acknowledges at once.

    Other programs delay answers, but hardly all; what the server waits for is in each of them.
    """
    wire = observed.wire
    latencies = sorted(wire.latency_ns_acknowledged or wire.latency_ns) if wire else ()
    return latencies[len(latencies) // 10] if latencies else None


def blocked_event_loop(observed: Observations) -> Finding | None:
    """Looks for threads that rest in a wait for events, and sleep elsewhere under load."""
    evidence = []
    for thread in _threads(observed):
        if thread.rest not in EVENT_WAITS:
            continue
        elsewhere = _elsewhere(thread, has_locks=_waits_for_locks(observed, thread))
        # A few looks may meet it in a page fault or in a write to a full disk.
        if elsewhere.total() >= thread.looks / 4:
            evidence.append(
                f"{thread.name} rests in {thread.rest}, and under load"
                f" {elsewhere.total() / thread.looks:.0%} of {thread.looks} looks met it in"
                f" {_listed(elsewhere, thread)}"
            )
    if not evidence:
        return None
    return finding("blocked-event-loop", *evidence[:PLACES_SHOWN], *_latencies(observed))


def worker_limit(observed: Observations) -> Finding | None:
    """Compares connections with the number of requests that are in work (Little's law)."""
    load, lone = observed.load, lone_ns(observed)
    if load is None or lone is None or not _is_waiting(observed) or load.rate_rps_offered:
        return None
    in_work = load.requests / load.duration_ns * lone
    if in_work > IN_WORK_MAX * load.connections or blocked_event_loop(observed) is not None:
        return None
    sleeping = sum(_elsewhere(thread).total() for thread in _threads(observed))
    looks = observed.waits.looks if observed.waits is not None else 0
    # Threads that all wait for something else leave none that could do more.
    is_all = bool(looks) and sleeping / looks > IN_WORK_MAX * load.connections
    if is_all or _busy(load) > CORES_BUSY_MAX:
        return None
    count = max(1, round(in_work))
    rate = f"{load.requests * 1e9 / load.duration_ns:,.0f} answers per second"
    each = f"{format_time(lone)} each"
    evidence = [
        f"{rate} of {each}: {in_work:.1f} at a time, of {load.connections} connections",
        *_latencies(observed),
        *_places(observed),
    ]
    waiting = load.connections - count
    return finding(
        "worker-limit",
        *evidence,
        count=f"{count} {plural(count, 'request')}",
        are=plural(count, "is", "are"),
        others=f"{waiting} {plural(waiting, 'other waits', 'others wait')}",
        factor=f"{load.connections / in_work:.0f}",
    )


def time_without_cpu(observed: Observations) -> Finding | None:
    """Compares the time of a lone answer with the CPU time of a request."""
    load, lone = observed.load, lone_ns(observed)
    if load is None or lone is None or not _is_waiting(observed):
        return None
    computing = load.cpu_ns_per_request or 0.0
    took, computed = format_time(lone), format_time(computing)
    evidence = [
        f"a lone answer takes {took}, and its processes compute {computed} for a request",
        *_places(observed),
    ]
    return finding(
        "time-without-cpu", *evidence, share=f"{1 - computing / lone:.0%}", lone=format_time(lone)
    )


def disk_per_request(observed: Observations) -> Finding | None:
    """Counts waits for a disk, and looks for threads that sleep in a write."""
    calls, evidence = observed.syscalls, []
    if calls is not None and sum(calls.synced.values()) >= calls.requests / 2:
        evidence += [
            f"{count / calls.requests:.2f} calls of fsync per request for {path}"
            for path, count in Counter(calls.synced).most_common(PLACES_SHOWN)
        ]
    for thread in _threads(observed):
        places = {
            place: count
            for place, count in _elsewhere(thread).items()
            if _call(place) in {"write", "writev", "pwrite64", "fsync", "fdatasync"}
        }
        if sum(places.values()) >= 0.1 * thread.looks:
            met = _listed(Counter(places), thread)
            evidence.append(f"of the looks at {thread.name} under load, {met}")
    return finding("disk-per-request", *evidence[:PLACES_SHOWN]) if evidence else None


def _is_waiting(observed: Observations) -> bool:
    """Whether a lone request takes long, and little of it is CPU time."""
    load, lone, wire = observed.load, lone_ns(observed), observed.wire
    if load is None or lone is None or wire is None or lone < SLOW_NS:
        return False
    computing = load.cpu_ns_per_request
    return computing is not None and computing < COMPUTING_MAX * lone


def _busy(load: LoadObservation) -> float:
    """The larger of two: the share of all cores, and that of its core for the busiest thread."""
    busiest = max((thread.cpu_ns + thread.wait_ns for thread in load.threads), default=0)
    of_one = busiest / load.threads_ns if load.threads_ns else 0.0
    return max(of_one, load.cpu_cores / load.cores)


def _latencies(observed: Observations) -> tuple[str, ...]:
    load, lone = observed.load, lone_ns(observed)
    if load is None or lone is None:
        return ()
    busy = load.cpu_cores / load.cores
    alone, together = format_time(lone), format_time(load.latency_ns_p50)
    many = f"with {load.connections} connections and {busy:.0%} of the cores in use"
    return (f"a lone answer takes {alone}, and {together} {many}",)


def _places(observed: Observations) -> tuple[str, ...]:
    """Where threads wait, other than for work: the average number of threads at each place."""
    waits = observed.waits
    if waits is None or not waits.looks:
        return ()
    found: Counter[str] = Counter()
    functions: dict[str, str] = {}
    for thread in waits.threads:
        found += _elsewhere(thread)
        functions |= thread.functions
    if not found:
        return ("no thread sleeps anywhere but in a wait for events, for work or for a lock",)
    shown = ", ".join(
        f"{count / waits.looks:.1f} in {place}{_within(functions, place)}"
        for place, count in found.most_common(PLACES_SHOWN)
    )
    return (f"threads that wait there, on average: {shown}",)


def _elsewhere(thread: ThreadWaits, *, has_locks: bool = False) -> Counter[str]:
    """Places of a thread under load in which it does not rest; a futex is one with `has_locks`."""
    return Counter(
        {
            place: count
            for place, count in thread.places.items()
            if place != thread.rest
            and not place.endswith(RESTING)
            and (place not in REST or (has_locks and place == "futex"))
        }
    )


def _waits_for_locks(observed: Observations, thread: ThreadWaits) -> bool:
    """Whether a futex is a wait of the application.

    It is so in the main thread of an interpreter without much to do: in a busy one it waits for the
    interpreter's lock, and threads of other programs rest there.
    """
    load = observed.load
    if load is None or load.cpu_ns is None or thread.pid != thread.tid:
        return False
    if load.cpu_ns > 0.3 * load.duration_ns:
        return False
    # Each probe has a start of its own, so that processes have other numbers.
    names = (PurePosixPath(program.executable).name for program in load.processes)
    return any(map(INTERPRETERS.fullmatch, names))


def _threads(observed: Observations) -> Iterator[ThreadWaits]:
    waits = observed.waits
    # Fewer looks at a thread say little of where it waits.
    yield from (one for one in (waits.threads if waits else ()) if one.looks >= 30)


def _call(place: str) -> str:
    return place.partition(" ")[0]


def _listed(places: Counter[str], thread: ThreadWaits) -> str:
    return ", ".join(
        f"{place} ({count / thread.looks:.0%}{_within(thread.functions, place)})"
        for place, count in places.most_common(PLACES_SHOWN)
    )


def _within(functions: Mapping[str, str], place: str) -> str:
    """The function of Python that waits there, if it is known."""
    function = functions.get(_call(place))
    return f", in {function}" if function else ""
