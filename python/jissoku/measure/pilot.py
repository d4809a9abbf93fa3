"""Chooses connections and windows with which a configuration, as it is, answers with room.

Everything that is compared with it is measured with the same. A server that works off one request
at a time, or whose listen queue is short, is not measured by how long others wait for it.
"""

import http.client
import time
from contextlib import suppress
from dataclasses import dataclass

from jissoku.design.sampling_plan import SECOND, WINDOW_NS_MAX
from jissoku.errors import TargetError
from jissoku.inference.ablation import headroom_in
from jissoku.measure.counting import REQUESTS
from jissoku.measure.host import HostLoad, LocalHost, ServerHost, verified
from jissoku.measure.loadgen import LoadgenError, LoadSpec, TrialTiming
from jissoku.model import ArmMeasurement, CoreAssignment, MachineConditions, Workload, updated
from jissoku.model.wording import plural, times
from jissoku.system.interruption import Interruption
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.process import RunningTarget
from jissoku.targets.response import send_request

# How long the median request may wait for those before it: with more, a window is mostly queueing.
WAIT_MAX_NS = SECOND // 4

# Of the rate that it answers in a closed loop; and the part of the requests at that rate that have
# to be answered within the window.
PACED_PART = 0.5
ANSWERED_MIN = 0.9

# A try has this many connections less than the one before: 64, 16, 4, 1.
FEWER = 4

WARMUP_NS = SECOND // 10
WINDOW_NS = 3 * SECOND // 10

# Beyond warm-up and window: a load that hangs is ended, so that the pilot stays below 20 s.
GRACE_S = 3

# Requests of a paired window, at a tenth of the closed loop's rate, unless it gets too long.
REQUESTS_MIN = 100
RATE_PART = 0.1

# Requests are counted one at a time, for about this long.
COUNT_S = 2.0
COUNTED_MIN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot:
    """What the workload has to be like.

    Attributes:
        window_ns: For a closed loop; some of its requests have to begin and end in it.
        paired_window_ns: For a trial of two arms at a fixed rate.
        requests_counted: As many requests, one at a time, take about two seconds.
        generator_headroom: CPU time of the target over the load generator's, in a closed loop; None
            if it is not known.
        remark: Why there are fewer connections than were asked for; empty if there are not.
    """

    connections: int
    window_ns: int
    paired_window_ns: int
    requests_counted: int
    generator_headroom: float | None = None
    remark: str = ""


def pilot(
    prepared: PreparedTarget,
    workload: Workload,
    cores: CoreAssignment,
    seed: int,
    interruption: Interruption,
    host: ServerHost | None = None,
) -> Pilot:
    """Sends a target requests: one, then as many at once as it answers with room.

    TargetError if it does not answer, or not under load. `host` None: it runs on this machine.
    """
    host = host or LocalHost()
    launcher = host.launcher(f"{seed}/pilot", cores.server, None)
    try:
        with verified(host, launcher, prepared, workload, lambda: interruption.asked) as running:
            closed = updated(workload, rate_rps=None)
            found = _Pilot(running, closed, cores, seed, interruption, host).run()
    except TargetError:
        interruption.check()  # A signal is no failure of the target.
        raise
    interruption.check()
    return found


@dataclass(frozen=True, slots=True)
class _Pilot:
    running: RunningTarget
    workload: Workload
    cores: CoreAssignment
    seed: int
    interruption: Interruption
    host: ServerHost

    def run(self) -> Pilot:
        began = time.monotonic_ns()
        status = send_request(self.running.address, self.workload).status
        single_ns = time.monotonic_ns() - began
        asked = connections = self.workload.connections
        first, window_ns = "", min(WINDOW_NS_MAX, max(WINDOW_NS, 4 * single_ns))
        while True:
            measurement, seen, why = self._tried(status, connections, window_ns)
            if measurement is not None and not why:
                rate = measurement.requests / measurement.duration_ns * SECOND
                paced_rps = max(1, round(PACED_PART * rate))
                _, _, why = self._tried(status, connections, window_ns, paced_rps)
            if not why:
                break
            if connections == 1 and measurement is None and window_ns < WINDOW_NS_MAX:
                window_ns = WINDOW_NS_MAX  # A busy machine may take the core for a short one.
                continue
            if connections == 1:
                raise self.running.error(f"{self.running.name} cannot be measured: {why}")
            first = first or why
            connections = max(1, connections // FEWER)
            self._wait_for_the_rest()
        assert measurement is not None, "the last try has no objection"
        rate = measurement.requests / measurement.duration_ns * SECOND
        needed_ns = round(REQUESTS_MIN / (RATE_PART * rate) * SECOND)
        latency_ns = max(single_ns, measurement.latency_ns.p50)
        remark = (
            f"{asked} connections are too many for {self.running.name}: {first};"
            f" {connections} {plural(connections, 'is', 'are')} used."
        )
        return Pilot(
            connections=connections,
            window_ns=min(WINDOW_NS_MAX, 4 * latency_ns),
            paired_window_ns=min(WINDOW_NS_MAX, max(SECOND, needed_ns)),
            requests_counted=max(COUNTED_MIN, min(REQUESTS, round(COUNT_S / single_ns * SECOND))),
            generator_headroom=headroom_in(measurement, seen, self.cores, self.workload),
            remark=remark if first else "",
        )

    def _wait_for_the_rest(self) -> None:
        """Until the target has worked off what the last try left in its queue, or for a while."""
        with suppress(OSError, http.client.HTTPException):
            send_request(self.running.address, self.workload)

    def _tried(
        self, status: int, connections: int, window_ns: int, rate_rps: int | None = None
    ) -> tuple[ArmMeasurement | None, MachineConditions | None, str]:
        """Loads it with this many connections, at a rate or as fast as it answers; the objection.

        A server that serves a few connections to their end answers quickly in the closed loop of
        those, and shows at a rate that the requests on all others wait.
        """
        running = self.running
        workload = updated(self.workload, connections=connections, rate_rps=rate_rps)
        timing = TrialTiming(WARMUP_NS, window_ns)
        spec = updated(
            LoadSpec.of({running.name: running}, workload, timing, self.seed),
            status=status,
            own_processes=tuple(running.upstream_pids()),
            grace_s=GRACE_S,
        )
        started = self.interruption.waits_for
        load = HostLoad(host=self.host, spec=spec, cores=self.cores, started=started)
        try:
            (measurement,), seen = load.run()
        except LoadgenError as error:
            self.interruption.check()
            if not running.is_alive():
                ended = f"{running.name} {running.exit_description()} under load"
                raise running.error(ended) from error
            return None, None, str(error).partition(";")[0]
        self.interruption.check()
        return measurement, seen, objection(measurement, seen, connections)


def objection(measurement: ArmMeasurement, seen: MachineConditions, connections: int) -> str:
    """What speaks against this many connections; empty if nothing does."""
    failed = {kind: count for kind, count in measurement.errors.items() if count}
    if failed:
        return "errors: " + ", ".join(f"{count} {kind}" for kind, count in failed.items())
    turned_away = measurement.turned_away(seen)
    if turned_away and connections > 1:
        return f"its listen queue overflowed {times(turned_away)}"
    offered = (measurement.rate_rps_offered or 0) * measurement.duration_ns / SECOND
    if connections > 1 and measurement.requests < ANSWERED_MIN * offered:
        return f"{measurement.requests} of {offered:.0f} requests were answered in time"
    if measurement.latency_ns.p50 > WAIT_MAX_NS and connections > 1:
        return f"half of the requests wait more than {WAIT_MAX_NS / 1e6:g} ms"
    return ""
