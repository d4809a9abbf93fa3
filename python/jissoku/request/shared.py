"""Options of several commands, each with the type of its field."""

import pathlib
from typing import Annotated

import click
import msgspec

from jissoku.request import param_types
from jissoku.request.options import always, option

Arms = Annotated[tuple[str, ...], option(metavar="[TARGET | NAME=TARGET | TARGET@VERSION]...")]
Recipes = Annotated[
    tuple[str, ...],
    option(
        "--recipes", metavar="DIRECTORY", help="Directory with additional recipes.", is_local=always
    ),
]
Path = Annotated[
    str, option("--path", type=param_types.PATH, help="Path and query of the request.")
]
Headers = Annotated[
    tuple[tuple[str, str], ...],
    option(
        "-H",
        "--header",
        type=param_types.FIELD,
        metavar="'NAME: VALUE'",
        help="Additional request header field; repeatable.",
    ),
]
KeepAlive = Annotated[bool, option("--no-keepalive", help="Use one connection per request.")]
WebSocket = Annotated[
    bool,
    option(
        "--websocket",
        help="Send messages on WebSockets in place of requests: the body, or 32 bytes.",
    ),
]
Match = Annotated[
    str,
    option(
        "--match",
        type=click.Choice(["bytes", "json", "length", "status"]),
        help="What of each response must match the first one: all bytes, the keys and types of its"
        " JSON, its length, or its status alone.",
    ),
]
Unix = Annotated[
    bool, option("--unix", help="Connect over Unix sockets (all targets must support them).")
]
ServerCores = Annotated[
    str | None,
    option(
        "--server-cores",
        metavar="LIST",
        help="Cores of the servers, such as 0,2-3. Default: half of the physical cores.",
    ),
]
GeneratorCores = Annotated[
    str | None,
    option(
        "--generator-cores",
        metavar="LIST",
        help="Cores of the load generator, such as 1. Default: the other half.",
    ),
]
Labels = Annotated[
    tuple[tuple[str, str], ...],
    option(
        "--label",
        type=param_types.LABEL,
        metavar="NAME=TEXT",
        help="Label of the run in its record, such as commit=1234abc; repeatable.",
    ),
]
Seed = Annotated[
    int | None,
    option(
        "--seed",
        type=click.IntRange(0),
        default_text="drawn and recorded",
        help="Seed of all random choices (orders, roles, ports).",
    ),
]
Config = Annotated[
    str | None,
    option(
        "--config",
        metavar="FILE",
        help="A configuration of nginx or HAProxy to start from; it is only read.",
        is_local=always,
    ),
]
Listen = Annotated[
    str,
    option(
        "--listen",
        metavar="ADDRESS",
        help="Listen address of the configuration to send requests to, as written in its listen"
        " (HAProxy: bind) directive.",
    ),
]


# What these are for is said by each request.
COMMANDS = option("--cmd", metavar="NAME=COMMAND", is_local=always)
URLS = option("--url", metavar="NAME=URL", is_local=always)
CONNECTIONS = option("-c", "--connections", type=click.IntRange(1, 20_000))
RATE = option("-R", "--rate", type=param_types.RATE)

Out = Annotated[
    pathlib.Path | None,
    option(
        "--out",
        type=click.Path(file_okay=False, path_type=pathlib.Path),
        help="Directory for records and reports. Default: a new one under runs/.",
    ),
]
AsJson = Annotated[bool, option("--json")]
Quiet = Annotated[bool, option("--quiet", help="Print no progress.")]
Records = Annotated[
    tuple[pathlib.Path, ...],
    option(
        "--records",
        type=click.Path(path_type=pathlib.Path),
        metavar="DIR",
        help="Directory with runs; repeatable. Default: runs.",
    ),
]


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """Where results go, and what is printed; no run depends on it."""

    out: Out = None
    as_json: AsJson = False
    quiet: Quiet = False

    @property
    def is_quiet(self) -> bool:
        """Whether no progress is printed."""
        return self.quiet or self.as_json


def output(what: str, out: str = "") -> type[Output]:
    """The same with other help texts: what is printed as JSON, and what `--out` is for."""
    texts = [f"as_json: Print {what} as JSON.", *([f"out: {out}"] if out else [])]
    attributes = "\n".join(f"    {text}" for text in texts)
    return type("Output", (Output,), {"__doc__": f"Output.\n\nAttributes:\n{attributes}"})
