"""What is read of a target's processes by probes and profiles, which disturb it.

Nothing of it is used in a measurement. It is read on the target's own host: an agent has the same
for a client on another one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Event
from time import sleep
from typing import Protocol, Self

from jissoku.measure.client import ProbeError
from jissoku.measure.sampler import FREQUENCY_HZ, Profiler, ProfilerError, Sampler
from jissoku.model import CoreAssignment
from jissoku.model.explanation import ProcessInfo, ThreadUsage, ThreadWaits, WaitObservation
from jissoku.system import processes, strace, waiting
from jissoku.system.address import Peers
from jissoku.system.processes import process_tree
from jissoku.system.waiting import python_functions

# Looks at the target's threads: without load, and how long between two.
LOOKS_AT_REST, LOOK_S = 10, 0.01


def not_here() -> ProbeError:
    return ProbeError(
        "its processes cannot be found", result="run it here, as a recipe or with --cmd"
    )


@dataclass(slots=True)
class Trace:
    """System calls of all threads; empty until the trace has ended.

    `peers` are the addresses at the other end of sockets on which the target asks, by their names
    in calls; empty for one that is not known.
    """

    calls: list[strace.Call] = field(default_factory=list)
    peers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Counts:
    """System calls of all threads by name; empty until counting has ended."""

    calls: dict[str, int] = field(default_factory=dict)


class Waits(Protocol):
    """Looks again and again at what the threads of a target wait for: at rest, then in a window."""

    def __enter__(self) -> Self:
        """Looks at it without load; ProbeError if its processes are not known."""

    def on_window(self, edge: str) -> None:
        """Called with `open` and `close` at the start and end of the window."""

    def observation(self) -> WaitObservation:
        """Ends it, and returns where each thread was met."""

    def __exit__(self, *_: object) -> None:
        """Ends it, unless it has ended."""


class Inspector(Protocol):
    """Reads of the processes of one running target; nothing where they are not known."""

    def rss_bytes(self) -> int:
        """Their resident memory."""

    def threads(self) -> tuple[ThreadUsage, ...]:
        """What each thread has used so far."""

    def processes(self) -> tuple[ProcessInfo, ...]:
        """Their programs."""

    def traced(self) -> AbstractContextManager[Trace]:
        """Traces system calls meanwhile; ProbeError if that is not possible."""

    def counted(self) -> AbstractContextManager[Counts]:
        """Counts system calls meanwhile; ProbeError if that is not possible."""

    def waits(self) -> Waits:
        """Looks at what threads wait for."""

    def sampler(self, *, limit_s: float, frequency: int = FREQUENCY_HZ) -> Sampler:
        """Samples CPU time; it ends by itself some time after `limit_s`.

        ProfilerError if the processes are not known. `frequency` in samples per second of CPU time.
        """


class LocalInspector:
    """Reads of processes of this machine."""

    def __init__(self, root: int | None, cores: CoreAssignment) -> None:
        """`root` is the first process; None: unknown. What reads runs on the generator's cores."""
        self._root = root
        self._cores = cores

    def rss_bytes(self) -> int:
        return processes.rss_bytes(process_tree(self._root))

    def threads(self) -> tuple[ThreadUsage, ...]:
        return processes.thread_usage(process_tree(self._root))

    def processes(self) -> tuple[ProcessInfo, ...]:
        return processes.process_infos(process_tree(self._root))

    @contextmanager
    def traced(self) -> Iterator[Trace]:
        trace = Trace()
        with self._straced(strace.CALLS) as found:
            yield trace
        trace.calls += strace.calls(found.text.splitlines())
        peers = Peers()
        trace.peers = {name: peers.of(name) for name in strace.round_trips(trace.calls)}

    @contextmanager
    def counted(self) -> Iterator[Counts]:
        counts = Counts()
        with self._straced(strace.COUNTS) as found:
            yield counts
        counts.calls |= strace.counts_by_name(found.text)

    @contextmanager
    def _straced(self, options: Sequence[str]) -> Iterator[strace.StraceText]:
        pids = sorted(process_tree(self._root))
        if not pids:
            raise not_here()
        try:
            with strace.traced(pids, options) as found:
                yield found
        except strace.StraceError as error:
            raise ProbeError(str(error), result=error.hint) from error

    def waits(self) -> "LocalWaits":
        return LocalWaits(self._root, self._cores)

    def sampler(self, *, limit_s: float, frequency: int = FREQUENCY_HZ) -> Profiler:
        if self._root is None:
            raise ProfilerError("its processes are not known: sample a target that is started here")
        return Profiler(self._root, self._cores, limit_s=limit_s, frequency=frequency)


@dataclass(slots=True)
class _Looks:
    """How often each thread of a target was met at each place; an empty one is a core."""

    root: int
    peers: Peers
    count: int = 0
    found: dict[tuple[int, int, str], Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )

    def look(self) -> None:
        self.count += 1
        for thread, place in waiting.places(process_tree(self.root), self.peers).items():
            self.found[thread][place] += 1


class LocalWaits:
    """`Waits` of a target on this machine."""

    def __init__(self, root: int | None, cores: CoreAssignment) -> None:
        """Nothing is looked at yet."""
        self._root = root
        self._cores = cores
        self._window, self._closed = Event(), Event()
        self._held = ExitStack()

    def __enter__(self) -> Self:
        root, peers = self._root, Peers()
        if root is None or not process_tree(root):
            raise not_here()
        self._at_rest, self._loaded = _Looks(root, peers), _Looks(root, peers)
        for _ in range(LOOKS_AT_REST):
            self._at_rest.look()
            sleep(LOOK_S)
        self._functions = self._held.enter_context(python_functions(root, self._cores.generator))
        self._looking = self._held.enter_context(ThreadPoolExecutor(1)).submit(self._look_on)
        return self

    def _look_on(self) -> None:
        self._window.wait()
        while not self._closed.wait(LOOK_S):
            self._loaded.look()

    def on_window(self, edge: str) -> None:
        (self._window if edge == "open" else self._closed).set()

    def observation(self) -> WaitObservation:
        self._end()
        self._looking.result()
        at_rest = self._at_rest.found.items()
        rests = {thread: places.most_common(1)[0][0] for thread, places in at_rest}
        return WaitObservation(
            looks=self._loaded.count,
            threads=tuple(
                ThreadWaits(
                    pid=pid,
                    tid=tid,
                    name=name,
                    rest=rests.get((pid, tid, name), ""),
                    looks=places.total(),
                    places={place: count for place, count in places.most_common() if place},
                    functions=self._functions.get(tid, {}),
                )
                for (pid, tid, name), places in sorted(self._loaded.found.items())
            ),
        )

    def _end(self) -> None:
        self._closed.set()
        self._window.set()
        self._held.close()

    def __exit__(self, *_: object) -> None:
        self._end()
