"""Options of several commands, each with the type of its field."""

import pathlib
import tomllib
from importlib.resources import files
from typing import Annotated

import click
import msgspec
from click import Choice, IntRange

from jissoku.request.options import always, option
from jissoku.request.param_types import FIELD, LABEL, PATH, RATE as RATES

HELP: dict[str, str] = tomllib.loads(
    files("jissoku.request").joinpath("help.toml").read_text(encoding="utf-8")
)
MATCHES = Choice(["bytes", "json", "length", "status"])
DRAWN = "drawn and recorded"
DIRECTORY = click.Path(file_okay=False, path_type=pathlib.Path)
FILE = click.Path(dir_okay=False, path_type=pathlib.Path)
PLACE = click.Path(path_type=pathlib.Path)

Texts = tuple[str, ...]
Pairs = tuple[tuple[str, str], ...]

Arms = Annotated[Texts, option(metavar="[TARGET | NAME=TARGET | TARGET@VERSION]...")]
Recipes = Annotated[
    Texts, option("--recipes", metavar="DIRECTORY", help=HELP["recipes"], is_local=always)
]
Path = Annotated[str, option("--path", type=PATH, help=HELP["path"])]
Headers = Annotated[
    Pairs, option("-H", "--header", type=FIELD, metavar="'NAME: VALUE'", help=HELP["header"])
]
KeepAlive = Annotated[bool, option("--no-keepalive", help=HELP["keepalive"])]
WebSocket = Annotated[bool, option("--websocket", help=HELP["websocket"])]
Match = Annotated[str, option("--match", type=MATCHES, help=HELP["match"])]
Unix = Annotated[bool, option("--unix", help=HELP["unix"])]
ServerCores = Annotated[
    str | None, option("--server-cores", metavar="LIST", help=HELP["server_cores"])
]
GeneratorCores = Annotated[
    str | None, option("--generator-cores", metavar="LIST", help=HELP["generator_cores"])
]
ServerHost = Annotated[
    str,
    option("--server-host", metavar="HOST:PORT", help=HELP["server_host"], is_local=always),
]
ServerKeys = Annotated[
    str, option("--server-keys", metavar="DIR", help=HELP["server_keys"], is_local=always)
]
LoadHosts = Annotated[
    Texts, option("--load-host", metavar="HOST:PORT", help=HELP["load_host"], is_local=always)
]
Labels = Annotated[Pairs, option("--label", type=LABEL, metavar="NAME=TEXT", help=HELP["label"])]
Seed = Annotated[
    int | None, option("--seed", type=IntRange(0), default_text=DRAWN, help=HELP["seed"])
]
Config = Annotated[
    str | None, option("--config", metavar="FILE", help=HELP["config"], is_local=always)
]
Listen = Annotated[str, option("--listen", metavar="ADDRESS", help=HELP["listen"])]


# What these are for is said by each request.
COMMANDS = option("--cmd", metavar="NAME=COMMAND", is_local=always)
URLS = option("--url", metavar="NAME=URL", is_local=always)
CONNECTIONS = option("-c", "--connections", type=IntRange(1, 20_000))
RATE = option("-R", "--rate", type=RATES)

Out = Annotated[pathlib.Path | None, option("--out", type=DIRECTORY, help=HELP["out"])]
AsJson = Annotated[bool, option("--json")]
Quiet = Annotated[bool, option("--quiet", help=HELP["quiet"])]
Records = Annotated[
    tuple[pathlib.Path, ...],
    option("--records", type=PLACE, metavar="DIR", help=HELP["records"]),
]


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """Where results go, and what is printed; no run depends on it."""

    out: Out = None
    as_json: AsJson = False
    quiet: Quiet = False

    @property
    def is_quiet(self) -> bool:
        return self.quiet or self.as_json


def output(what: str, out: str = "") -> type[Output]:
    """The same with other help texts: what is printed as JSON, and what `--out` is for."""
    texts = [f"as_json: Print {what} as JSON.", *([f"out: {out}"] if out else [])]
    attributes = "\n".join(f"    {text}" for text in texts)
    return type("Output", (Output,), {"__doc__": f"Output.\n\nAttributes:\n{attributes}"})
