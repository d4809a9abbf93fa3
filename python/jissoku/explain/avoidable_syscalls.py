"""System calls per request that a response does not need, each with an alternative."""

from jissoku.explain import open_per_request
from jissoku.explain.phrasing import format_saving, format_time
from jissoku.model.explanation import Finding, Observations, SyscallObservation

PER_REQUEST_MIN = 0.5

# Each new connection accounts for this many calls of one name.
PER_CONNECTION = 3

INSTEAD = {
    "getpeername": "accept4(2) gave the peer's address, and it does not change",
    "getsockname": "call it once per connection; it does not change",
    "getsockopt": "call it once per connection",
    "setsockopt": "set it once; a connection inherits what its listener has",
    "fcntl": "accept4(2) sets the flags of a new connection",
    "ioctl": "a receive reports what there is, and accept4(2) sets flags",
    "epoll_ctl": "register a connection once, and leave it registered",
    "getpid": "call it once per process",
    "gettid": "call it once per thread",
    "getppid": "call it once per process",
    "geteuid": "call it once per process",
    "clock_gettime": "read the clock once per wake-up, from a clock source that needs no call",
    "gettimeofday": "read the clock once per wake-up, from a clock source that needs no call",
    "time": "read the clock once per wake-up",
    "brk": "keep memory instead of giving it back",
    "mmap": "keep memory instead of giving it back",
    "munmap": "keep memory instead of giving it back",
    "madvise": "keep memory instead of giving it back",
    "futex": "let the thread that received a request answer it",
    "rt_sigprocmask": "block signals once per thread",
    "rt_sigaction": "install handlers once",
    "alarm": "keep deadlines in the wait's timeout",
    "setitimer": "keep deadlines in the wait's timeout",
    "timerfd_settime": "keep deadlines in the wait's timeout",
    "sched_yield": "wait for events instead",
    "lseek": "read at an offset (pread(2))",
    "fstat": "keep what it said with the open file",
}

# Calls that belong to opening a file, reported there.
OF_FILES = frozenset(["fstat", "fcntl", "ioctl", "lseek", "mmap", "munmap"])

RECEIVES = ("recvfrom", "read", "recvmsg", "readv", "recv")


def diagnose(observed: Observations) -> Finding | None:
    """Lists the avoidable calls that most requests made."""
    syscalls = observed.syscalls
    if syscalls is None:
        return None
    opens = open_per_request.diagnose(observed) is not None
    found = {
        name: per_request
        for name in INSTEAD
        if (per_request := _per_request(syscalls, syscalls.counts.get(name, 0))) >= PER_REQUEST_MIN
        if not (opens and name in OF_FILES)
    }
    again = {
        name: per_request
        for name in RECEIVES
        if (per_request := _per_request(syscalls, syscalls.eagain.get(name, 0))) >= PER_REQUEST_MIN
    }
    if not found and not again:
        return None
    prices = observed.syscall_cost_ns
    evidence = [_evidence(name, count, prices.get(name)) for name, count in found.items()]
    evidence += [
        f"{name}: {count:.2f} per request that found nothing" for name, count in again.items()
    ]
    instead = [f"{name}: {INSTEAD[name]}" for name in found]
    instead += [f"{name}: wait after a short read instead of reading on" for name in again]
    names = ", ".join(found | again)
    return Finding(
        name="avoidable-syscalls",
        cause=f"Requests make system calls that an answer does not need: {names}.",
        evidence=tuple(evidence),
        falsified_by="the calls gone, and the same CPU time per request",
        effect=format_saving(observed, sum(n * prices.get(name, 0.0) for name, n in found.items())),
        remedy="; ".join(instead),
    )


def _per_request(syscalls: SyscallObservation, count: int) -> float:
    return (count - PER_CONNECTION * syscalls.connections) / syscalls.requests


def _evidence(name: str, count: float, price: float | None) -> str:
    cost = f", at most {format_time(price)} each on this machine" if price else ""
    return f"{name}: {count:.2f} per request{cost}"
