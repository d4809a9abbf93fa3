"""The options of other servers: tables in TOML files beside this module."""

import tomllib
from functools import cache
from importlib import resources

import msgspec

SERVERS = ("gunicorn", "uvicorn", "granian", "hypercorn", "uwsgi")


class Option(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An option of another server.

    Attributes:
        setting: Its name in a configuration file, where it differs from the long option.
        value: Whether it takes one.
        kind: How it is translated (`translate.KINDS`).
        here: The flag of `jissoku serve`.
        note: How that differs; of an option without a counterpart, what to do instead.
    """

    names: tuple[str, ...]
    setting: str = ""
    value: bool = True
    kind: str = "text"
    here: str = ""
    note: str = ""

    @property
    def key(self) -> str:
        """Its name in a configuration file."""
        return self.setting or max(self.names, key=len).lstrip("-").replace("-", "_")


class Server(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another server.

    Attributes:
        default_address: Where it listens unless it is said.
        attribute: What it serves of a module that is named alone.
        differs: What differs whatever its options are.
    """

    default_address: str
    attribute: str
    differs: tuple[str, ...]
    option: tuple[Option, ...]

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
    return msgspec.convert(tomllib.loads(text), Server)
