"""Options shared by several commands."""

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from jissoku.cli.param_types import Field, Label, RequestPath

recipes = click.option(
    "--recipes",
    multiple=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory with additional recipes.",
)
path = click.option(
    "--path",
    default="/",
    show_default=True,
    type=RequestPath(),
    help="Path and query of the request.",
)
header = click.option(
    "-H",
    "--header",
    multiple=True,
    type=Field(),
    metavar="'NAME: VALUE'",
    help="Additional request header field; repeatable.",
)


def connections(description: str) -> Callable[[Any], Any]:
    """The number of connections; `description` says what they are counted for."""
    return click.option(
        "-c",
        "--connections",
        default=64,
        show_default=True,
        type=click.IntRange(1, 20_000),
        help=description,
    )


keepalive = click.option(
    "--no-keepalive",
    "keepalive",
    flag_value=False,
    default=True,
    help="Use one connection per request.",
)
websocket = click.option(
    "--websocket",
    is_flag=True,
    help="Send messages on WebSockets in place of requests: the body, or 32 bytes.",
)
unix = click.option(
    "--unix", is_flag=True, help="Connect over Unix sockets (all targets must support them)."
)
out = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for records and reports. Default: a new one under runs/.",
)
server_cores = click.option(
    "--server-cores",
    metavar="LIST",
    help="Cores of the servers, such as 0,2-3. Default: half of the physical cores.",
)
generator_cores = click.option(
    "--generator-cores",
    metavar="LIST",
    help="Cores of the load generator, such as 1. Default: the other half.",
)
quiet = click.option("--quiet", is_flag=True, help="Print no progress.")
labels = click.option(
    "--label",
    multiple=True,
    type=Label(),
    metavar="NAME=TEXT",
    help="Label of the run in its record, such as commit=1234abc; repeatable.",
)
records = click.option(
    "--records",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory with runs; repeatable. Default: runs.",
)
seed = click.option(
    "--seed",
    type=click.IntRange(0),
    default=lambda: secrets.randbelow(2**31),
    show_default="drawn and recorded",
    help="Seed of all random choices (orders, roles, ports).",
)
config = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A configuration of nginx or HAProxy to start from; it is only read.",
)
listen = click.option(
    "--listen",
    default="",
    metavar="ADDRESS",
    help="Listen address of the configuration to send requests to, as written in its listen"
    " (HAProxy: bind) directive.",
)


def as_json(what: str) -> Callable[[Any], Any]:
    """Whether `what` is printed as JSON instead of text."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what} as JSON.")
