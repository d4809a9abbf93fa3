"""Options of several commands, each with the type of its field."""

from typing import Annotated

import click

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
Unix = Annotated[
    bool,
    option("--unix", help="Connect over Unix sockets (all targets must support them)."),
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
