"""Live figures of running `jissoku serve`: read while a page shows them, and kept for minutes."""

import http.client
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock

from markupsafe import Markup

from jissoku import chart
from jissoku.errors import InputError
from jissoku.report import format as fmt
from jissoku.report.format import Table
from jissoku.system.address import Address, listener_pid
from jissoku.system.measurement_lock import is_measuring
from jissoku.system.processes import CpuTime, cpu_time, process_tree, start_ticks

# What a page shows, and how often it reads.
SPAN_S = 120
PERIOD_NS = 1_000_000_000

# Pixels of a chart, which the style sheet stretches to the width of a column.
CHART_SIZE = (400, 160)

LIMIT_S = 2.0
SIZE_MAX = 1 << 20

REQUESTS = "jissoku_requests_total"
APP = "jissoku_app_seconds"
STARTED = "process_start_time_seconds"
PAUSED = "A measurement runs on this machine: nothing is read until it has ended."


@dataclass(frozen=True, slots=True)
class Reading:
    """Counters by name with labels; `cpu` is that of the server's processes, if it is visible."""

    at_ns: int
    values: Mapping[str, float]
    cpu: CpuTime | None

    def growth_since(self, before: "Reading", name: str) -> float:
        """The growth of a counter, over all of its labels."""

        def total(values: Mapping[str, float]) -> float:
            return sum(value for key, value in values.items() if key.partition("{")[0] == name)

        return total(self.values) - total(before.values)

    def mean_ns_since(self, before: "Reading", name: str) -> float | None:
        count = self.growth_since(before, f"{name}_count")
        return 1e9 * self.growth_since(before, f"{name}_sum") / count if count > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What a server did between two readings, per second; connections open at the later one.

    `cores` are CPU seconds per second. `queue_ns` and `app_ns` are the mean times until and in an
    application, and `app_p99_ns` a bound of the histogram that 99 % do not exceed. All are None if
    they are not known.
    """

    at_ns: int
    requests_rps: float
    failed_rps: float
    accepted_rps: float
    open: float
    received_bytes: float
    sent_bytes: float
    cores: float | None
    queue_ns: float | None
    app_ns: float | None
    app_p99_ns: float | None


class WatchedServer:
    """One server; its methods may be called from several threads."""

    def __init__(self, where: str) -> None:
        """`where` is HOST:PORT of this machine or unix:PATH; else InputError."""
        self.where = where
        self._address = _address(where)
        self._lock = Lock()
        self._readings: deque[Reading] = deque(maxlen=SPAN_S + 1)
        self._looked_ns: int | None = None
        self._pid: int | None = None
        self._start_ticks = 0
        self.problem = ""
        self.version = 0

    def look(self) -> None:
        """Reads the metrics, at most once in `PERIOD_NS`, and never while load is measured."""
        with self._lock:
            now_ns = time.monotonic_ns()
            if self._looked_ns is not None and now_ns - self._looked_ns < PERIOD_NS:
                return
            self._looked_ns = now_ns
            before = self.problem
            if is_measuring():
                self.problem = PAUSED
            else:
                self._read()
            if not self.problem or self.problem != before:
                self.version += 1

    def rates(self) -> tuple[Rates, ...]:
        """Oldest first; empty before the second reading."""
        with self._lock:
            return tuple(_rates(before, after) for before, after in pairwise(self._readings))

    def _read(self) -> None:
        try:
            values = parse(_text(self._address))
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._readings.clear()
            self.problem = f"{self.where} has no metrics: {error}"
            return
        self.problem = ""
        if not self._is_same_process(values):
            self._readings.clear()
            self._pid = listener_pid(self._address)
            self._start_ticks = start_ticks(self._pid) if self._pid else 0
        cpu = cpu_time(process_tree(self._pid)) if self._pid else None
        self._readings.append(Reading(time.monotonic_ns(), values, cpu))

    def _is_same_process(self, values: Mapping[str, float]) -> bool:
        """Whether the counters go on. The metrics give the start in whole seconds only."""
        if not self._readings or self._readings[-1].values.get(STARTED) != values.get(STARTED):
            return False
        return self._pid is None or start_ticks(self._pid) == self._start_ticks


def parse(text: str) -> dict[str, float]:
    """OpenMetrics by name with labels; ValueError: it is none, not whole, or of another program."""
    lines = text.splitlines()
    if not lines or lines[-1] != "# EOF":
        raise ValueError("the text does not end as OpenMetrics does")
    found = {}
    for line in lines:
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    if not any(name.startswith(REQUESTS) for name in found):
        raise ValueError(f"there is no {REQUESTS}: name the address of `jissoku serve --metrics`")
    return found


def _rates(before: Reading, after: Reading) -> Rates:
    seconds = max(after.at_ns - before.at_ns, 1) / 1e9

    def per_second(name: str) -> float:
        return max(0.0, after.growth_since(before, name)) / seconds

    failed = 'jissoku_requests_total{status="5xx"}'
    cores = None
    if before.cpu is not None and after.cpu is not None and not after.cpu.lacks(before.cpu):
        cores = after.cpu.run_ns_since(before.cpu) / 1e9 / seconds
    return Rates(
        at_ns=after.at_ns,
        requests_rps=per_second(REQUESTS),
        failed_rps=(after.values.get(failed, 0.0) - before.values.get(failed, 0.0)) / seconds,
        accepted_rps=per_second("jissoku_connections_accepted_total"),
        open=after.values.get("jissoku_connections_open", 0.0),
        received_bytes=per_second("jissoku_received_bytes_total"),
        sent_bytes=per_second("jissoku_sent_bytes_total"),
        cores=cores,
        queue_ns=after.mean_ns_since(before, "jissoku_app_queue_seconds"),
        app_ns=after.mean_ns_since(before, APP),
        app_p99_ns=_app_p99_ns(before, after),
    )


def _app_p99_ns(before: Reading, after: Reading) -> float | None:
    """The smallest bound of a bucket that 99 % of the durations do not exceed."""
    count = after.growth_since(before, f"{APP}_count")
    for key, value in after.values.items() if count > 0 else ():
        if key.startswith(f'{APP}_bucket{{le="'):
            bound = float(key.split('"')[1])
            if value - before.values.get(key, 0.0) >= 0.99 * count and bound != float("inf"):
                return 1e9 * bound
    return None


def _text(address: Address) -> str:
    with closing(http.client.HTTPConnection("localhost")) as connection:
        connection.sock = address.connect(LIMIT_S)
        connection.request("GET", "/metrics", headers={"Host": address.authority})
        answer = connection.getresponse()
        body = answer.read(SIZE_MAX)
    if answer.status != http.HTTPStatus.OK:
        raise ValueError(f"GET /metrics is answered with {answer.status}")
    return body.decode()


def _address(where: str) -> Address:
    if where.startswith("unix:/"):
        return Address(socket=where.removeprefix("unix:"))
    host, _, port = where.rpartition(":")
    name = host.strip("[]")
    if name not in {"127.0.0.1", "::1", "localhost"} or not port.isdecimal() or len(port) > 5:
        raise InputError(
            f"--metrics {where}: write HOST:PORT of this machine or unix:/PATH, as"
            " `jissoku serve --metrics` has it"
        )
    return Address(host=name, port=int(port))


@dataclass(frozen=True, slots=True)
class Figure:
    """A value of `Rates` as a chart, whose axis reaches to `reach` of its units at least."""

    name: str
    title: str
    value: Callable[[Rates], float | None]
    text: Callable[[float], str]
    reach: float
    unit: float = 1.0


def _bytes(value: float) -> str:
    return f"{fmt.rate_mark(float(f'{value:.3g}'))}B"


def _plain(value: float) -> str:
    return fmt.significant(value).rstrip("0").rstrip(".") if value % 1 else f"{value:,.0f}"


FIGURES = (
    Figure("requests", "Requests per second", lambda one: one.requests_rps, _plain, 1.0),
    Figure("connections", "Open connections", lambda one: one.open, _plain, 4.0),
    Figure("cpu", "Cores used", lambda one: one.cores, _plain, 0.1),
    Figure("sent", "Bytes sent per second", lambda one: one.sent_bytes, _bytes, 1000.0),
    Figure(
        "app", "Milliseconds in the application", lambda one: one.app_ns, fmt.duration, 0.1, 1e6
    ),
)


def shown(server: WatchedServer, number: int) -> dict[str, object]:
    """What a page shows of a server; `number` makes the names of its charts unique.

    `now` and the charts are empty before the second reading.
    """
    rates = server.rates()
    return {
        "where": server.where,
        "problem": server.problem,
        "now": _now(rates[-1]) if rates else None,
        "charts": tuple(_charts(rates, number)),
    }


def _charts(rates: Sequence[Rates], number: int) -> Iterator[tuple[str, str, Markup]]:
    """Name, title and drawing of each figure with values."""
    now_ns = time.monotonic_ns()
    for figure in FIGURES:
        values = [
            ((now_ns - one.at_ns) / 1e9, value)
            for one in rates
            if (value := figure.value(one)) is not None
        ]
        if values:
            yield f"server{number}-{figure.name}", figure.title, draw_times(figure, values)


def draw_times(figure: Figure, values: Sequence[tuple[float, float]]) -> Markup:
    """Draws pairs of seconds before now, and a value; oldest first, at least one."""
    minutes, text = SPAN_S // 60, figure.text
    shown = [(ago_s, value) for ago_s, value in values if ago_s <= SPAN_S]
    now, highest = values[-1][1], max(value for _, value in values)
    # The absent values at both ends make the axis as long as the time that is shown.
    drawing = chart.line(
        [None, *(value / figure.unit for _, value in shown), None],
        positions=[-SPAN_S, *(-ago_s for ago_s, _ in shown), 0],
        labels=[f"{minutes} min ago", f"{minutes / 2:g} min", "now"],
        reach=(0, figure.reach),
        title=figure.title,
        description=f"now {text(now)}; at most {text(highest)} in the last {minutes} minutes",
        size=CHART_SIZE,
        in_page=True,
    )
    return Markup(drawing)  # noqa: S704 - texts are escaped where it is drawn


def _now(now: Rates) -> Table:
    rows = [
        ("requests", fmt.rate(now.requests_rps)),
        ("of them with status 5xx", fmt.rate(now.failed_rps)),
        ("open connections", _plain(now.open)),
        ("new connections", fmt.rate(now.accepted_rps)),
        ("bytes received", f"{fmt.size(now.received_bytes)}/s"),
        ("bytes sent", f"{fmt.size(now.sent_bytes)}/s"),
    ]
    if now.cores is not None:
        rows.append(("cores used", fmt.significant(now.cores)))
        if now.requests_rps:
            rows.append(("CPU per request", fmt.duration(1e9 * now.cores / now.requests_rps)))
    if now.app_ns is not None and now.queue_ns is not None:
        rows.append(("wait for the application, mean", fmt.duration(now.queue_ns)))
        rows.append(("time in the application, mean", fmt.duration(now.app_ns)))
    if now.app_p99_ns is not None:
        rows.append(("99 % of these times are at most", fmt.duration(now.app_p99_ns)))
    return Table(header=("value", "now"), rows=tuple(rows))
