"""Live figures of running servers, from their metrics."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from jissoku.report import format as fmt, plots
from jissoku.report.format import Table
from jissoku.report.plots import Axis
from jissoku.report.svg import Chart
from jissoku.ui.page_data import Value, data, is_json_requested
from jissoku.ui.render import Pages
from jissoku.ui.server_metrics import SPAN_S, Rates, WatchedServer
from jissoku.ui.streams import Streams


@dataclass(frozen=True, slots=True)
class Figure:
    """A value of `Rates` as a plot, whose axis reaches to `reach` at least."""

    name: str
    title: str
    value: Callable[[Rates], float | None]
    text: Callable[[float], str]
    reach: float = 0.0


def _bytes(value: float) -> str:
    return f"{fmt.rate_mark(float(f'{value:.3g}'))}B"


def _plain(value: float) -> str:
    return fmt.significant(value).rstrip("0").rstrip(".") if value % 1 else f"{value:,.0f}"


FIGURES = (
    Figure("requests", "Requests per second", lambda one: one.requests_rps, _plain),
    Figure("connections", "Open connections", lambda one: one.open, _plain, 4.0),
    Figure("cpu", "Cores used", lambda one: one.cores, _plain),
    Figure("sent", "Bytes sent per second", lambda one: one.sent_bytes, _bytes),
    Figure("app", "Mean time in the application", lambda one: one.app_ns, fmt.duration),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownServer:
    """A server as the page shows it; `now` and the charts are empty before the second reading."""

    where: str
    problem: str
    now: Table | None
    charts: tuple[Chart, ...]


class ServerPages:
    """Their endpoints. Metrics are read only while a page is open."""

    def __init__(self, servers: Sequence[WatchedServer], pages: Pages, streams: Streams) -> None:
        """Reads nothing yet."""
        self._servers = tuple(servers)
        self._pages = pages
        self._streams = streams

    def routes(self) -> list[Route]:
        return [Route("/servers", self.servers), Route("/servers/stream", self.stream)]

    def servers(self, request: Request) -> Response:
        servers = self._look()
        if is_json_requested(request):
            return data(_rates(self._servers))
        return self._pages.page(
            request, "servers.html.j2", has_data=True, servers=servers, version=self._version
        )

    async def stream(self, request: Request) -> Response:
        """Server-sent events: the figures whenever they have changed."""
        seen = request.headers.get("last-event-id", request.query_params.get("after", ""))

        def look() -> tuple[str, str, str] | None:
            nonlocal seen
            shown = self._look()
            if self._version == seen:
                return None
            seen = self._version
            return "progress", seen, self._pages.fill("server_figures.html.j2", servers=shown)

        return StreamingResponse(self._streams.events(look), media_type="text/event-stream")

    @property
    def _version(self) -> str:
        return "-".join(str(server.version) for server in self._servers)

    def _look(self) -> list[ShownServer]:
        for server in self._servers:
            server.look()
        return [shown(server, number) for number, server in enumerate(self._servers)]


def _rates(servers: Sequence[WatchedServer]) -> Value:
    names = [one.name for one in fields(Rates) if one.name != "at_ns"]
    now_ns = time.monotonic_ns()
    return {
        "rates": [
            {
                "server": server.where,
                **{name: getattr(one, name) for name in names},
                "seconds_ago": (now_ns - one.at_ns) / 1e9,
            }
            for server in servers
            for one in server.rates()
        ],
        "problems": {one.where: one.problem for one in servers if one.problem},
    }


def shown(server: WatchedServer, number: int) -> ShownServer:
    """What a page shows of a server; `number` makes the names of its charts unique."""
    rates = server.rates()
    return ShownServer(
        where=server.where,
        problem=server.problem,
        now=_now(rates[-1]) if rates else None,
        charts=tuple(_charts(rates, number)),
    )


def _charts(rates: Sequence[Rates], number: int) -> Iterator[Chart]:
    now_ns = time.monotonic_ns()
    for figure in FIGURES:
        values = [
            ((now_ns - one.at_ns) / 1e9, value)
            for one in rates
            if (value := figure.value(one)) is not None
        ]
        if not values:
            continue
        name = f"server{number}-{figure.name}"
        yield Chart(
            name=name,
            title=figure.title,
            caption="",
            drawing=plots.draw_times(
                name, values, Axis(span_s=SPAN_S, reach=figure.reach, label=figure.text)
            ),
            numbers=Table(header=(), rows=()),
        )


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
