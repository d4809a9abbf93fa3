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

    `setting` is its name in a configuration file, where it differs; `choices` may follow an option
    that needs no value; `kind` is one of `translate.KINDS`. `here` is our flag, and `note` how that
    differs, or what to do instead. `shown` is what `jissoku serve` says of it, where it is neither
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
        return self.setting or max(self.names, key=len).lstrip("-").replace("-", "_")


@dataclass(frozen=True, kw_only=True)
class Server:
    """Another server: its address, what it serves of a module alone, and what always differs."""

    default_address: str
    attribute: str
    differs: Sequence[str]
    option: Sequence[Option]

    def find(self, name: str) -> Option | None:
        return next((one for one in self.option if name in one.names), None)

    def of_setting(self, key: str) -> Option | None:
        plain = key.replace("-", "_")
        found = (
            one
            for one in self.option
            if plain == one.key or f"--{key.replace('_', '-')}" in one.names
        )
        return next(found, None)


@cache
def server(name: str) -> Server:
    text = resources.files("jissoku.migrate").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    options = [Option(**row) for row in table.pop("option")]
    return Server(option=options, **table)
