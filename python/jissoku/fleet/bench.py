"""A host of targets whose load comes from several other hosts, all at the same times.

Each load generator connects and waits. Then all get the time at which they begin, each by its own
clock, and no message is sent until they have ended. Their time slices begin at fixed times after
that, so that all of them load the same target. The clocks are translated to within the bound of
round trips; an error of it moves the edges of slices, and no latency, which is of one host.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from jissoku.errors import HostLost
from jissoku.fleet.channel import GaveUp
from jissoku.fleet.clock import ClockBound, ClockStep, Translation
from jissoku.fleet.load_agent import LoadAgent
from jissoku.fleet.load_wire import Echo, LoadResult
from jissoku.fleet.merging import merged
from jissoku.fleet.remote import RemoteHost
from jissoku.measure.loadgen import (
    Generate,
    Generated,
    LoadgenError,
    LoadSpec,
    OnWindow,
    Share,
    Started,
    seconds_at_most,
)
from jissoku.measure.observation import Observation, Observer, Report, WindowTimes
from jissoku.model import CoreAssignment, Recipe, Run, UnavailableTarget, updated
from jissoku.model.run import NetworkPath
from jissoku.model.trial import LoadHostConditions
from jissoku.targets.prepare import PreparedTarget

# From the decision when to begin to the beginning: each host has to receive it meanwhile.
LEAD_NS = 500_000_000
LEAD_ROUND_TRIPS = 5

# How far the beginnings of load generators are apart: their requests alternate as those of one do,
# unless the rate is so low that nothing is sent at the same time anyway.
STAGGER_NS_MAX = 200_000

# After a time slice, until the next one begins: the last responses are awaited, of which some take
# long. At least this, and this part of the slice.
PAUSE_NS_MIN = 2_000_000
PAUSE_PART = 10

Result = TypeVar("Result")


class Flight:
    """A load that is under way on other hosts, as an interruption ends it."""

    def __init__(self) -> None:
        self.is_given_up = False

    def poll(self) -> int | None:
        """It is never known to have ended."""
        return None

    def terminate(self) -> None:
        self.is_given_up = True


class Bench(RemoteHost):
    """An agent's host whose targets get their load from the agents of load hosts."""

    def __init__(self, *given: Any) -> None:
        """As a `RemoteHost`; it has no load hosts yet."""
        super().__init__(*given)
        self._loads: tuple[LoadAgent, ...] = ()
        self._paths: list[NetworkPath] = []
        self._generator: tuple[int, ...] = ()
        self._error_ns = 0

    def use(self, loads: Sequence[LoadAgent]) -> None:
        """All loads come from these hosts from now on."""
        self._loads = tuple(loads)

    @property
    def lost(self) -> str:
        """Why it, or the first of the load hosts, cannot be reached any more."""
        return self._lost or next((load.lost for load in self._loads if load.lost), "")

    @property
    def generate(self) -> Generate:  # type: ignore[override]
        return self._generate

    def prepare(self, recipe: Recipe, version: str) -> PreparedTarget | UnavailableTarget:
        """Builds may take long: the agents of load hosts learn that their client is there."""
        found = super().prepare(recipe, version)
        for load in self._loads:
            load.clock()
        return found

    def _chosen_cores(self, server: str | None, generator: str | None) -> CoreAssignment:
        here = self._welcome.host
        chosen = [load.choose_cores(here, generator) for load in self._loads]
        self._paths, self._generator = [one.path for one in chosen], chosen[0].generator
        return super()._chosen_cores(server, None)

    def describe(self, run: Run) -> Run:
        described = super().describe(run)
        assert described.load_host is not None
        load = updated(
            described.load_host,
            machine=self._loads[0].machine(),
            path=max(self._paths, key=list(NetworkPath).index, default=described.load_host.path),
            hosts=len(self._loads),
        )
        cores = updated(run.cores, generator=self._generator)
        return updated(described, load_host=load, cores=cores)

    def remarks(self) -> tuple[str, ...]:
        return (*super().remarks(), f"It came from {len(self._loads)} load hosts.")

    def observed(self, spec: LoadSpec, cores: CoreAssignment) -> tuple[LoadSpec, Observer]:
        """As with one load host, with the errors of the load hosts' clocks in addition."""
        plain, observer = super().observed(spec, cores)
        return plain, _BenchObserver(observer, lambda: self._error_ns)

    def _generate(
        self,
        spec: LoadSpec,
        cores: CoreAssignment,
        started: Started,
        observer: Observer,
        on_window: OnWindow,
    ) -> Generated:
        del cores, on_window  # Load hosts have cores of their own, and send no message meanwhile.
        flight = Flight()
        started(flight)
        observer.start()
        echo = Echo(host=self._welcome.host, port=self.address.port)
        volley = Volley(self._loads, spec, echo, flight)
        try:
            found = volley.fire()
        except GaveUp as error:
            raise LoadgenError("the load was given up") from error
        except ClockStep as error:
            raise LoadgenError(f"the load hosts were not at one time: {error}") from error
        self._error_ns = volley.error_ns
        return found


@dataclass(frozen=True, slots=True)
class _BenchObserver:
    """Adds the errors of further clocks to what an observer says of its own."""

    observer: Observer
    error_ns: Callable[[], int]

    def start(self) -> None:
        self.observer.start()

    def network_loss(self) -> str:
        return self.observer.network_loss()

    def window_opened(self) -> None:
        self.observer.window_opened()

    def window_closed(self) -> None:
        self.observer.window_closed()

    def finish(self, report: Report, times: WindowTimes) -> Observation:
        seen = self.observer.finish(report, times)
        more = {
            name: seen.conditions[name] + self.error_ns()
            for name in ("clock_error_ns", "edge_error_ns")
        }
        return Observation(
            host=seen.host, measured=seen.measured, conditions={**seen.conditions, **more}
        )


@dataclass(slots=True)
class Volley:
    """One load from several hosts; `error_ns` is known afterwards, the bound of their clocks."""

    loads: Sequence[LoadAgent]
    spec: LoadSpec
    echo: Echo
    flight: Flight
    error_ns: int = 0
    _clocks: list[ClockBound] = field(default_factory=list)

    def fire(self) -> Generated:
        """Sends the load, and returns the report of all.

        HostLost: a load host is gone, and with it its part of this load. ClockStep, MergeError: the
        parts do not belong together.
        """
        self._clocks = self._all(LoadAgent.clock)
        shares = [self._share(number) for number in range(len(self.loads))]
        armed = self._each(
            partial(load.arm, self.spec, share, self.echo)
            for load, share in zip(self.loads, shares, strict=True)
        )
        for number, one in enumerate(armed, 1):
            if not one.is_armed:
                self._all(LoadAgent.drop)
                return _nothing(number, one.stderr, one.code)
        start_ns = self._begin()
        limit_s = seconds_at_most(self.spec)
        give_up = self._is_given_up
        results = self._each(partial(load.end, limit_s, give_up) for load in self.loads)
        pairs = zip(self._clocks, self._all(LoadAgent.clock), strict=True)
        clocks = [Translation(before=before, after=after) for before, after in pairs]
        self.error_ns = max(clock.error_ns for clock in clocks)
        return self._merged(start_ns, results, clocks)

    def _is_given_up(self) -> bool:
        return self.flight.is_given_up

    def _share(self, number: int) -> Share:
        slice_ns = self.spec.timing.slice_ns
        if slice_ns is None:
            return Share(number=number, of=len(self.loads))
        trips_ns = max(clock.round_trip_ns for clock in self._clocks)
        pause_ns = max(PAUSE_NS_MIN, slice_ns // PAUSE_PART) + 2 * trips_ns
        return Share(number=number, of=len(self.loads), slot_ns=slice_ns + pause_ns)

    @property
    def _stagger_ns(self) -> int:
        """Between the beginnings of two load hosts: the time between two requests of the load."""
        rate = self.spec.workload.rate_rps
        return min(1_000_000_000 // rate, STAGGER_NS_MAX) if rate else 0

    def _begin(self) -> int:
        """Sends all the time at which they begin, and returns it by our clock."""
        trips_ns = sum(clock.round_trip_ns for clock in self._clocks)
        start_ns = time.monotonic_ns() + LEAD_NS + LEAD_ROUND_TRIPS * trips_ns
        self._each(
            partial(load.begin, start_ns + clock.offset_ns + number * self._stagger_ns)
            for number, (load, clock) in enumerate(zip(self.loads, self._clocks, strict=True))
        )
        return start_ns

    def _merged(
        self, start_ns: int, results: Sequence[LoadResult], clocks: Sequence[Translation]
    ) -> Generated:
        reports: list[Report] = []
        for number, result in enumerate(results, 1):
            if result.report is None:
                return _nothing(number, result.stderr, result.code)
            reports.append(result.report)
        report = merged(reports)
        first = [one["slices"][0]["began_ns"] for one in report["targets"] if one["slices"]]
        opened_ns = start_ns + (min(first) if first else self.spec.timing.warmup_ns)
        lasted_ns = max(one["duration_ns"] for one in report["targets"])
        apart_ns = (len(self.loads) - 1) * self._stagger_ns
        waits = [one.wait_fraction for one in results if one.wait_fraction is not None]
        parts = zip(results, reports, clocks, strict=True)
        conditions: Mapping[str, object] = {
            "generator_wait_fraction": max(waits, default=None),
            "load_hosts": tuple(_conditions(*part) for part in parts),
        }
        times = WindowTimes(opened_ns=opened_ns, closed_ns=opened_ns + lasted_ns + apart_ns)
        return Generated(report=report, times=times, conditions=conditions)

    def _all(self, ask: Callable[[LoadAgent], Result]) -> list[Result]:
        return self._each(partial(ask, load) for load in self.loads)

    def _each(self, asked: Iterable[Callable[[], Result]]) -> list[Result]:
        """Asks all hosts at once, and waits for all; then the first loss is raised, or error."""
        with ThreadPoolExecutor(len(self.loads)) as threads:
            futures = [threads.submit(one) for one in asked]
        errors = [error for one in futures if (error := one.exception()) is not None]
        for error in sorted(errors, key=lambda one: not isinstance(one, HostLost)):
            raise error
        return [one.result() for one in futures]


def _nothing(number: int, stderr: str, code: int) -> Generated:
    """A load that one host has not sent, by its number: records name no machine."""
    said = stderr or f"the load generator ended with code {code}"
    return Generated(stderr=f"load host {number}: {said}", code=code)


def _conditions(result: LoadResult, report: Report, clock: Translation) -> LoadHostConditions:
    """What one load host has met, in the terms of the record."""
    host, targets = result.host, report["targets"]
    medians = [one["latency_ns"]["p50"] for one in targets if one["latency_ns"]]
    lags = [one["lag_ns_p99"] for one in targets if one["lag_ns_p99"] is not None]
    return LoadHostConditions(
        requests=sum(one["requests"] for one in targets),
        latency_ns_p50=max(medians, default=None),
        lag_ns_p99=max(lags, default=None),
        longest_stall_ns=report["longest_stall_ns"],
        wait_fraction=result.wait_fraction,
        steal_fraction=host.steal_fraction,
        foreign_fraction=host.foreign_fraction,
        softirq_fraction=host.softirq_fraction,
        tcp_segments=host.tcp_segments,
        tcp_retransmits=host.tcp_retransmits,
        tcp_timeouts=host.tcp_timeouts,
        path_ns=result.path.idle_ns,
        path_ns_loaded=result.path.loaded_ns,
        clock_error_ns=clock.error_ns,
    )
