"""The settings of servers that remove causes, of `settings.toml`."""

import re
import tomllib
from collections.abc import Iterable
from importlib.resources import files
from pathlib import PurePosixPath

import msgspec

from jissoku.model.explanation import ProcessInfo

OTHERWISE = "otherwise"

# The program may follow an interpreter and its flags, as in `python3 -X dev -m gunicorn`.
WORDS_MAX = 5

RELEASE = re.compile(r"[-.\d]+$")


class _Data(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    programs: dict[str, tuple[str, ...]]
    setting: dict[str, dict[str, str]]


_TEXT = files("jissoku.explain").joinpath("settings.toml").read_text(encoding="utf-8")
_DATA = msgspec.convert(tomllib.loads(_TEXT), _Data)

SERVERS = tuple(_DATA.programs)
SETTINGS = _DATA.setting

_SERVER_OF = {program: server for server, some in _DATA.programs.items() for program in some}


def setting(cause: str, server: str) -> str:
    """What removes a cause in a server, or the reason why nothing does; empty if not known."""
    lines = SETTINGS.get(cause, {}) if server else {}
    return lines.get(server) or lines.get(OTHERWISE, "")


def server_of(processes: Iterable[ProcessInfo]) -> str:
    """The server that some processes are; empty if none that is known."""
    found = (server_of_command((one.executable, *one.arguments)) for one in processes)
    return next(filter(None, found), "")


def server_of_command(words: Iterable[str]) -> str:
    """The server that a command starts; empty if none that is known."""
    names = (RELEASE.sub("", PurePosixPath(word).name) for word in tuple(words)[:WORDS_MAX])
    return next((_SERVER_OF[name] for name in names if name in _SERVER_OF), "")
