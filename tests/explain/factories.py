"""Constructed observations for the rules: an idle target, and changes of it."""

from typing import Any

from jissoku.model.explanation import (
    LoadObservation,
    MemoryObservation,
    Observations,
    ProcessInfo,
    SyscallObservation,
    ThreadUsage,
    ThreadWaits,
    TimerObservation,
    WaitObservation,
    WireObservation,
)
from jissoku.model.profile import Frame, ProfileObservation
from jissoku.model.updated import updated
from tests.profiles.factories import Stack, samples, with_interpreter

REQUESTS = 800
SAMPLES = 1_000


def thread(tid: int, cpu_ns: int, *, wait_ns: int = 0, pid: int = 1) -> ThreadUsage:
    return ThreadUsage(
        pid=pid,
        tid=tid,
        name=f"worker-{tid}",
        cpu_ns=cpu_ns,
        wait_ns=wait_ns,
        switches_voluntary=10,
        switches_involuntary=2,
        core=tid % 2,
    )


WIRE = WireObservation(
    latency_ns=(70_000,) * 40,
    latency_ns_acknowledged=(70_000,) * 40,
    segments=(1,) * 40,
    segment_size=65_483,
    answer_size=115,
    answers_until_close=None,
    answers_asked=1_001,
)

CALLS = SyscallObservation(
    requests=REQUESTS,
    connections=0,
    counts={"recvfrom": 806, "sendto": 800, "epoll_pwait2": 119, "epoll_ctl": 6},
    eagain={"recvfrom": 6},
    isolated_connections=200,
    slowdown=2.5,
)

LOAD = LoadObservation(
    connections=64,
    cores=2,
    requests=100_000,
    duration_ns=1_500_000_000,
    cpu_ns=700_000_000,
    cpu_user_fraction=0.1,
    latency_ns_p50=500_000,
    latency_ns_p99=900_000,
    rate_rps_offered=None,
    generator_busy_fraction=0.7,
    tcp_retransmits=0,
    listen_overflows=0,
    threads=(
        thread(0, 600_000_000, wait_ns=500_000_000),
        thread(1, 500_000_000, wait_ns=500_000_000),
        thread(2, 0),
    ),
    threads_ns=1_900_000_000,
    processes=(ProcessInfo(pid=1, executable="/usr/bin/server", arguments=("server", "--port=1")),),
)

QUIET = Observations(
    wire=WIRE,
    syscalls=CALLS,
    load=LOAD,
    timers=TimerObservation(
        waiting=16_000, cpu_ns_idle=14_000, cpu_ns_waiting=15_000, lateness_ns=600_000
    ),
    memory=MemoryObservation(connections=400, rss_bytes_before=20 << 20, rss_bytes_after=21 << 20),
    floor_cpu_ns=5_000,
    syscall_cost_ns={"getpeername": 400, "openat": 4_000, "connection": 30_000, "write": 300},
)


def wire(**changes: Any) -> Observations:
    return updated(QUIET, wire=updated(WIRE, **changes))


def calls(more: dict[str, int] | None = None, **changes: Any) -> Observations:
    counts = CALLS.counts | (more or {})
    return updated(QUIET, syscalls=updated(CALLS, counts=counts, **changes))


def load(**changes: Any) -> Observations:
    return updated(QUIET, load=updated(LOAD, **changes))


def thread_waits(places: dict[str, int], rest: str = "epoll_wait", tid: int = 1) -> ThreadWaits:
    return ThreadWaits(pid=1, tid=tid, name=f"thread-{tid}", rest=rest, looks=100, places=places)


def waits(*threads: ThreadWaits, **of_load: Any) -> Observations:
    """A target that was looked at a hundred times, and what was different under load."""
    return updated(load(**of_load), waits=WaitObservation(looks=100, threads=threads))


# An answer of 20 ms under 64 connections, with two of them at a time in work.
def slow(*threads: ThreadWaits, requests: int = 150, **of_load: Any) -> Observations:
    late = updated(WIRE, latency_ns=(20_000_000,) * 40, latency_ns_acknowledged=(20_000_000,) * 40)
    quiet = {"threads": (thread(0, 10_000_000),), "cpu_ns": 15_000_000, "requests": requests}
    return updated(waits(*threads, **(quiet | of_load)), wire=late)


def timers(idle: float, waiting: float, late_ns: int = 600_000) -> Observations:
    seen = TimerObservation(
        waiting=16_000, cpu_ns_idle=idle, cpu_ns_waiting=waiting, lateness_ns=late_ns
    )
    return updated(QUIET, timers=seen)


# A target in the kernel: 4 us of kernel threads per answer, and almost no CPU time of its own.
KERNEL = updated(
    load(cpu_ns=2_000_000, generator_cpu_cores=0.7, kernel_cpu_ns=400_000_000),
    floor_cpu_ns=5_000.0,
    floor_total_cpu_ns=16_000.0,
)


def profile(*stacks: Stack, interpreted: bool = False) -> Observations:
    """A profile with this many samples of some stacks, innermost first, and the rest elsewhere."""
    outer = Frame(function="main", library="server")
    frames = (outer, *dict.fromkeys(frame for _, stack in stacks for frame in stack))
    rest = (SAMPLES - sum(count for count, _ in stacks), (outer,))
    seen = (*((count, (*stack, outer)) for count, stack in stacks), rest)
    read = with_interpreter(samples((SAMPLES, (outer,)), frames=frames), *seen)
    return updated(
        QUIET,
        profile=ProfileObservation(
            requests=10_000,
            cpu_ns=SAMPLES * 1_000_000,
            samples=read if interpreted else samples(*seen, frames=frames),
        ),
    )


def function(name: str, library: str = "server", count: int = 300) -> Observations:
    """A profile with this many samples of one function."""
    return profile((count, (Frame(function=name, library=library),)))
