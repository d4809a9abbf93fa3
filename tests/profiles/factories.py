"""Constructed profiles, for the rules, statistics and reports."""

from jissoku.model import CoreAssignment, Machine, Workload
from jissoku.model.profile import (
    KERNEL,
    Frame,
    Profile,
    ProfiledThread,
    SampledStack,
    Samples,
)
from jissoku.model.updated import updated

MACHINE = Machine(
    cpu_model="a processor",
    cores=2,
    smt=False,
    memory_bytes=1 << 30,
    kernel="6.1",
    hypervisor="none seen",
    governor="unknown",
    turbo="unknown",
    clocksource="tsc",
    python="3.12.1",
)

MAIN = Frame(function="main", library="server", file="server.c", line=3)
BURN = Frame(function="burn", library="server", file="server.c", line=10)
ZLIB = Frame(function="", library="libz.so.1")
SEND = Frame(function="__x64_sys_sendto", library=KERNEL)
TCP = Frame(function="tcp_sendmsg", library=KERNEL)
HANDLER = Frame(function="handler", library="[python]", file="app.py", line=4)
WORK = Frame(function="work", library="[python]", file="app.py", line=9)
LATE = Frame(function="(not read: it did not stop)", library="[python]")
ARROWS = tuple(
    Frame(function="(anonymous)", library="[javascript]", file="server.js", line=line)
    for line in (3, 8)
)
GENERATED = Frame(function="", library="[jit]")
LOOP = Frame(function="_PyEval_EvalFrameDefault", library="python3.11")

Stack = tuple[int, tuple[Frame, ...]]

FRAMES = (MAIN, BURN, ZLIB, SEND, TCP, HANDLER, WORK, LATE, LOOP, GENERATED, *ARROWS)


def profile(*stacks: Stack, target: str = "server", us: float = 100.0) -> Profile:
    """Samples of stacks, innermost first, under a load that cost `us` per request."""
    total = sum(count for count, _ in stacks)
    requests = max(1, round(total * 1_000_000 / (us * 1000)))
    return Profile(
        target=target,
        version="1.0",
        lab="0.1.0",
        workload=Workload(rate_rps=max(1, requests // 10)),
        cores=CoreAssignment(server=(0,), generator=(1,)),
        machine=MACHINE,
        window_ns=10_000_000_000,
        requests=requests,
        cpu_ns=total * 1_000_000,
        samples=samples(*stacks),
    )


def samples(*stacks: Stack, frames: tuple[Frame, ...] = FRAMES) -> Samples:
    """What the sampler reports of stacks, innermost first: one sample per millisecond of CPU."""
    return Samples(
        clock="cpu-time",
        period=1_000_000,
        duration_ns=10_000_000_000,
        samples=sum(count for count, _ in stacks),
        kernel_samples=0,
        sees_kernel=True,
        lost=0,
        throttled=0,
        cut_stacks=0,
        frames=frames,
        threads=(ProfiledThread(process=0, program="server", name="worker"),),
        stacks=tuple(
            SampledStack(thread=0, frames=tuple(map(frames.index, stack)), count=count)
            for count, stack in stacks
        ),
    )


def interpreted(profile: Profile, *stacks: Stack) -> Profile:
    """The same with stacks of its interpreter."""
    return updated(profile, samples=with_interpreter(profile.samples, *stacks))


def with_interpreter(samples: Samples, *stacks: Stack) -> Samples:
    """The same with stacks of an interpreter, of frames that are among those of `samples`."""
    read = tuple(
        SampledStack(thread=0, frames=tuple(map(samples.frames.index, stack)), count=count)
        for count, stack in stacks
    )
    return updated(samples, interpreted=read)
