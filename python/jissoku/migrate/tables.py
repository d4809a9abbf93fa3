"""The options of other servers: tables in TOML files beside this module."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

SERVERS = ("gunicorn", "uvicorn", "granian", "hypercorn", "uwsgi")


@dataclass(frozen=True, kw_only=True)
class Option:
    """An option of another server.

    Attributes:
        setting: Its name in a configuration file, where it differs from the long option.
        value: Whether it takes one.
        choices: Values that may follow it, where it does not need one.
        kind: How it is translated (`translate.KINDS`).
        here: The flag of `jissoku serve`.
        note: How that differs; of an option without a counterpart, what to do instead.
        shown: What `jissoku serve` says of it, where that is neither `here` nor `note`
            (`crates/jissoku-cli/src/serve/elsewhere.rs`).
    """

    names: Sequence[str]
    setting: str = ""
    value: bool = True
    choices: Sequence[str] = ()
    kind: str = "text"
    here: str = ""
    note: str = ""
    shown: str = ""

    @property
    def key(self) -> str:
        """Its name in a configuration file."""
        return self.setting or max(self.names, key=len).lstrip("-").replace("-", "_")


@dataclass(frozen=True, kw_only=True)
class Server:
    """Another server.

    Attributes:
        default_address: Where it listens unless it is said.
        attribute: What it serves of a module that is named alone.
        differs: What differs whatever its options are.
    """

    default_address: str
    attribute: str
    differs: Sequence[str]
    option: Sequence[Option]

    def find(self, name: str) -> Option | None:
        """The option of this name, as on the command line."""
        return next((one for one in self.option if name in one.names), None)

    def of_setting(self, key: str) -> Option | None:
        """The option of this key of a configuration file."""
        plain = key.replace("-", "_")
        found = (
            one
            for one in self.option
            if plain == one.key or f"--{key.replace('_', '-')}" in one.names
        )
        return next(found, None)


@cache
def server(name: str) -> Server:
    """The table of a server."""
    text = resources.files("jissoku.migrate").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    options = [Option(**row) for row in table.pop("option")]
    return Server(option=options, **table)
