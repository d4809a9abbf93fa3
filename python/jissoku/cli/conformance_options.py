"""The options of `jissoku conformance`, of servers and of reverse proxies."""

from pathlib import Path
from typing import Annotated

import click
import msgspec

from jissoku.conformance.case import SplitMode
from jissoku.measure.gateway_counts import GatewayCount
from jissoku.request import shared
from jissoku.request.options import option

COUNTS = [str(what) for what in GatewayCount]


class ConformanceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the command.

    Attributes:
        cmd: Start a command; {port} is replaced by its port.
        url: Test an external server at this URL.
        through: Test this reverse proxy instead: a recipe, with scripted servers behind it.
        upstream: With --through: the sockets of the servers behind the proxy.
        count: With --through: count failures instead: at closed connections, or with mutated
            requests.
        amount: With --count: number of requests or restarts. Default: 10000 requests, 50 restarts.
        apps: Test how the server calls an application (WSGI or ASGI), started with that of the
            cases.
        case: Run only the cases whose name or clause matches this pattern.
        cases: Directory with other cases. Default: the built-in ones.
        splits: Send each case again, split in two at some places.
        bytes: Send each case again, byte by byte.
        show_all: List every case, not only failures.
        as_json: Print every case as JSON.
    """

    target: Annotated[str | None, option()] = None
    cmd: Annotated[str | None, shared.COMMANDS] = None
    url: Annotated[str | None, shared.URLS] = None
    through: Annotated[str | None, option("--through", metavar="PROXY")] = None
    upstream: Annotated[str, option("--upstream", type=click.Choice(["tcp", "unix", "both"]))] = (
        "both"
    )
    count: Annotated[str | None, option("--count", type=click.Choice(COUNTS))] = None
    amount: Annotated[int | None, option("--amount", type=click.IntRange(min=1))] = None
    apps: Annotated[bool, option("--apps")] = False
    recipes: shared.Recipes = ()
    case: Annotated[tuple[str, ...], option("--case", metavar="GLOB")] = ()
    cases: Annotated[
        Path | None, option("--cases", type=click.Path(file_okay=False, path_type=Path))
    ] = None
    splits: Annotated[bool, option("--splits")] = False
    bytes: Annotated[bool, option("--bytes")] = False
    show_all: Annotated[bool, option("--all")] = False
    as_json: Annotated[bool, option("--json")] = False

    @property
    def sending(self) -> SplitMode:
        """How each case is sent."""
        if self.bytes:
            return SplitMode.BYTES
        return SplitMode.SPLITS if self.splits else SplitMode.WHOLE
