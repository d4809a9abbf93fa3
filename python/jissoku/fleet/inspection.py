"""What probes and profiles read of a target on another host: both ends of the connection.

One thing of one target is looked at at a time. While a probe has its target under load, two
messages are sent: when its window opens, and when it closes. No measurement depends on them.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import msgspec

from jissoku.errors import HostLost, InputError, JissokuError, TargetError
from jissoku.fleet import wire
from jissoku.measure.client import ProbeError
from jissoku.measure.inspection import Counts, Inspector, LocalWaits, Trace
from jissoku.measure.sampler import FREQUENCY_HZ, NAMES_LIMIT_S, Profiler, ProfilerError
from jissoku.measure.syscall_costs import syscall_costs
from jissoku.model.explanation import ProcessInfo, ThreadUsage, WaitObservation
from jissoku.model.profile import Samples

# Samples per second of CPU time, and the time, that a client may ask for.
FREQUENCY_MAX = 20_000
SAMPLED_S_MAX = 1_800.0

# How long the longest of these things may take: strace attaches and detaches, names are looked up.
ATTACH_S = 60.0
NAMES_S = NAMES_LIMIT_S + 30.0

Result = TypeVar("Result", bound=msgspec.Struct)
Watch = TypeVar("Watch")


@dataclass(frozen=True, slots=True)
class _Begun:
    target: int
    watch: Trace | Counts | LocalWaits | Profiler
    held: ExitStack


class Inspections:
    """The agent's end: what a session looks at."""

    def __init__(self, inspector: Callable[[int], Inspector]) -> None:
        """`inspector` reads of a target, by its number; InputError if none of it runs."""
        self._inspector = inspector
        self._begun: _Begun | None = None

    def answers(self) -> dict[type, Callable[[Any], msgspec.Struct]]:
        """What answers each request."""
        return {
            wire.AskMemory: self._memory,
            wire.AskThreads: self._threads,
            wire.AskProcesses: self._processes,
            wire.AskCosts: self._costs,
            wire.BeginTrace: self._begin_trace,
            wire.BeginCounts: self._begin_counts,
            wire.BeginWaits: self._begin_waits,
            wire.BeginSampling: self._begin_sampling,
            wire.AtWindow: self._at_window,
            wire.EndTrace: self._end_trace,
            wire.EndCounts: self._end_counts,
            wire.EndWaits: self._end_waits,
            wire.EndSampling: self._end_sampling,
        }

    def discard(self, target: int | None = None) -> None:
        """Ends what was begun, of this target or of any."""
        begun = self._begun
        if begun is not None and target in {None, begun.target}:
            self._begun = None
            begun.held.close()

    def _memory(self, asked: wire.AskMemory) -> wire.Memory:
        return wire.Memory(rss_bytes=self._inspector(asked.target).rss_bytes())

    def _threads(self, asked: wire.AskThreads) -> wire.Threads:
        return wire.Threads(threads=self._inspector(asked.target).threads())

    def _processes(self, asked: wire.AskProcesses) -> wire.Processes:
        return wire.Processes(processes=self._inspector(asked.target).processes())

    def _costs(self, asked: wire.AskCosts) -> wire.Costs:
        del asked
        return wire.Costs(ns=syscall_costs())

    def _begin_trace(self, asked: wire.BeginTrace) -> wire.Answer:
        return self._begin(asked.target, self._inspector(asked.target).traced())

    def _begin_counts(self, asked: wire.BeginCounts) -> wire.Answer:
        return self._begin(asked.target, self._inspector(asked.target).counted())

    def _begin_waits(self, asked: wire.BeginWaits) -> wire.Answer:
        return self._begin(asked.target, self._inspector(asked.target).waits())

    def _begin_sampling(self, asked: wire.BeginSampling) -> wire.Answer:
        if not (0 < asked.frequency <= FREQUENCY_MAX and 0 < asked.limit_s <= SAMPLED_S_MAX):
            raise InputError(
                f"it samples for {SAMPLED_S_MAX:g} s and {FREQUENCY_MAX:,} times a second at most"
            )
        inspector = self._inspector(asked.target)
        sampler = inspector.sampler(limit_s=asked.limit_s, frequency=asked.frequency)
        return self._begin(asked.target, sampler)

    def _begin(self, target: int, begun: AbstractContextManager[Any]) -> wire.Answer:
        self.discard()
        with ExitStack() as held:
            watch = held.enter_context(begun)
            self._begun = _Begun(target, watch, held.pop_all())
        return wire.Answer(is_true=True)

    def _at_window(self, asked: wire.AtWindow) -> wire.Answer:
        watch = self._begun.watch if self._begun is not None else None
        if not isinstance(watch, LocalWaits | Profiler):
            raise InputError("nothing that has a window was begun")
        watch.on_window("open" if asked.is_open else "close")
        return wire.Answer(is_true=True)

    def _watch(self, kind: type[Watch]) -> Watch:
        watch = self._begun.watch if self._begun is not None else None
        if not isinstance(watch, kind):
            raise InputError("nothing of this kind was begun")
        return watch

    def _end_trace(self, asked: wire.EndTrace) -> wire.Traced:
        del asked
        trace = self._watch(Trace)
        self.discard()
        return wire.Traced(calls=tuple(trace.calls), peers=trace.peers)

    def _end_counts(self, asked: wire.EndCounts) -> wire.Counted:
        del asked
        counts = self._watch(Counts)
        self.discard()
        return wire.Counted(calls=counts.calls)

    def _end_waits(self, asked: wire.EndWaits) -> WaitObservation:
        del asked
        waits = self._watch(LocalWaits)
        try:
            return waits.observation()
        finally:
            self.discard()

    def _end_sampling(self, asked: wire.EndSampling) -> Samples:
        del asked
        sampler = self._watch(Profiler)
        try:
            return sampler.samples()
        finally:
            self.discard()


class Ask(Protocol):
    """Sends a request, and returns the agent's answer, as `RemoteHost.ask`."""

    def __call__(self, request: wire.Request, kind: type[Result], limit_s: float = ...) -> Result:
        """HostLost: there is none. The error of the agent if it has failed or refused."""


class RemoteInspector:
    """The client's end: reads of a target on an agent's host."""

    def __init__(self, ask: Ask, handle: int) -> None:
        """`handle` is the agent's number of the target."""
        self._ask_agent = ask
        self._handle = handle

    def _ask(self, request: wire.Request, kind: type[Result], limit_s: float = ATTACH_S) -> Result:
        """The answer; ProbeError or ProfilerError if that failed, and the agent is still there."""
        try:
            return self._ask_agent(request, kind, limit_s)
        except (HostLost, TargetError, ProbeError, ProfilerError):
            raise
        except JissokuError as error:
            raise ProbeError(str(error)) from error

    def rss_bytes(self) -> int:
        return self._ask(wire.AskMemory(target=self._handle), wire.Memory).rss_bytes

    def threads(self) -> tuple[ThreadUsage, ...]:
        return self._ask(wire.AskThreads(target=self._handle), wire.Threads).threads

    def processes(self) -> tuple[ProcessInfo, ...]:
        return self._ask(wire.AskProcesses(target=self._handle), wire.Processes).processes

    @contextmanager
    def traced(self) -> Iterator[Trace]:
        trace = Trace()
        self._ask(wire.BeginTrace(target=self._handle), wire.Answer)
        yield trace
        found = self._ask(wire.EndTrace(), wire.Traced)
        trace.calls += found.calls
        trace.peers = found.peers

    @contextmanager
    def counted(self) -> Iterator[Counts]:
        counts = Counts()
        self._ask(wire.BeginCounts(target=self._handle), wire.Answer)
        yield counts
        counts.calls |= self._ask(wire.EndCounts(), wire.Counted).calls

    def waits(self) -> "_RemoteWaits":
        return _RemoteWaits(self._ask, wire.BeginWaits(target=self._handle))

    def sampler(self, *, limit_s: float, frequency: int = FREQUENCY_HZ) -> "_RemoteSampler":
        begin = wire.BeginSampling(target=self._handle, frequency=frequency, limit_s=limit_s)
        return _RemoteSampler(self._ask, begin)


class _RemoteWatch:
    """What is begun and ended by the agent, with a window in between."""

    def __init__(self, ask: Ask, begin: wire.Request) -> None:
        self._ask = ask
        self._begin = begin

    def __enter__(self) -> Self:
        self._ask(self._begin, wire.Answer)
        return self

    def on_window(self, edge: str) -> None:
        self._ask(wire.AtWindow(is_open=edge == "open"), wire.Answer)

    def __exit__(self, *_: object) -> None:
        """Nothing: the agent ends it with the target, or when something else is begun."""


class _RemoteWaits(_RemoteWatch):
    def observation(self) -> WaitObservation:
        return self._ask(wire.EndWaits(), WaitObservation)


class _RemoteSampler(_RemoteWatch):
    def samples(self) -> Samples:
        return self._ask(wire.EndSampling(), Samples, NAMES_S)
