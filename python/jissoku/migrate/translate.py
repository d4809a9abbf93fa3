"""A command line of another server as one of `jissoku serve`, and what differs."""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath

from jissoku.errors import InputError
from jissoku.migrate import settings
from jissoku.migrate.tables import SERVERS, Option, Server, server

# Reads a file by its name.
Read = Callable[[str], str]

ANYWHERE = "0.0.0.0"  # noqa: S104 - what other servers mean by a port alone
ALL_PEERS = "0.0.0.0/0,::/0,unix"


@dataclass(slots=True)
class Migration:
    """The line, what differs from the other server, and what has no counterpart.

    Attributes:
        config: The configuration file that it names; empty if it needs none.
    """

    name: str
    words: list[str] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    config: str = ""

    @property
    def line(self) -> str:
        """The command line, to be pasted into a shell."""
        environment = ["env", *self.variables] if self.variables else []
        return shlex.join([*environment, "jissoku", "serve", *self.words])


@dataclass(slots=True)
class Draft:
    """What is known of the server before its line is written."""

    server: Server
    result: Migration
    read: Read
    app: str = ""
    attribute: str = ""
    host: str = ""
    port: str = ""
    addresses: list[str] = field(default_factory=list)
    suffix: str = ""
    mounts: list[list[str]] = field(default_factory=lambda: [[], []])
    flags: dict[str, list[str]] = field(default_factory=dict)

    def set(self, flag: str, value: str) -> None:
        """Gives a flag its value; the last one holds, except of those that may be repeated."""
        if flag == "--static":
            self.flags.setdefault(flag, []).append(value)
        else:
            self.flags[flag] = [value]


def migrate(words: list[str], read: Read) -> Migration:
    """Translates a command line, whose first word is the server.

    Raises:
        InputError: The server is unknown, or a file of its configuration cannot be read.
    """
    words = [word for word in words if word not in {"python", "python3", "-m"}]
    while words and re.fullmatch(r"\w+=.*", words[0]):
        words = words[1:]
    name = PurePath(words[0]).name if words else ""
    if name not in SERVERS:
        known = ", ".join((*SERVERS, "nginx"))
        raise InputError(f"{name or 'nothing'} is no server that is known: {known}")
    result = Migration(name)
    draft = Draft(server(name), result, read)
    for option, value, spelled in _parsed(words[1:], draft):
        _apply(option, value, spelled, draft)
    _finish(draft)
    return result


def _parsed(words: list[str], draft: Draft) -> Iterator[tuple[Option, str, str]]:
    """The options with their values, and as they are spelled; other words are the application."""
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word == "-":
            _operand(word, draft)
            continue
        name, equals, value = word.partition("=")
        option = draft.server.find(name)
        if option is None and not word.startswith("--"):
            name, value, equals = word[:2], word[2:], word[2:]
            option = draft.server.find(name)
        if option is None:
            draft.result.absent.append(f"{name}: {draft.result.name} has no such option")
            continue
        if option.value and not equals:
            value = next(rest, "")
        yield option, value, name


def _operand(word: str, draft: Draft) -> None:
    if draft.result.name == "uwsgi" and word.endswith(".ini"):
        _read_file(word, draft)
    elif not draft.app:
        draft.app = word
    else:
        draft.result.absent.append(f"{word}: a second application")


def _read_file(name: str, draft: Draft) -> None:
    path = name.removeprefix("file:")
    if draft.result.name == "hypercorn" or path.startswith("python:"):
        draft.result.absent.append(f"{name}: write its keys as options")
        return
    text = draft.read(path)
    read = settings.of_ini if draft.result.name == "uwsgi" else settings.of_python
    try:
        found = list(read(text))
    except SyntaxError as error:
        raise InputError(f"{path}, line {error.lineno}: {error.msg}") from error
    for key, value, why in found:
        option = draft.server.of_setting(key)
        if key == "wsgi_app" and value:
            draft.app = draft.app or value
        elif value is None:
            draft.result.absent.append(f"{key} ({path}, {why})")
        elif option is not None:
            if value not in {"False", "None"}:
                _apply(option, value, f"{key} ({path}, {why})", draft)
        elif draft.result.name == "uwsgi" or not value.startswith("<"):
            draft.result.absent.append(f"{key} ({path}, {why}): not a setting that is known")


def _apply(option: Option, value: str, spelled: str, draft: Draft) -> None:
    KINDS[option.kind](draft, option, value)
    shown = spelled if not option.value or not value else f"{spelled} {value}"
    if option.kind == "absent":
        draft.result.absent.append(f"{shown}: {option.note}")
    elif option.note:
        draft.result.differs.append(f"{shown}: {option.here} {option.note}")


def _worker_class(draft: Draft, _: Option, value: str) -> None:
    if "uvicorn" in value.lower() or value == "asgi":
        draft.flags["--asgi"] = []
    elif value.partition(":")[0] in {"gevent", "eventlet", "tornado", "trio"}:
        draft.result.absent.append(f"worker class {value}: --threads N serves N requests at once")
    elif value not in {"sync", "gthread", "asyncio", "uvloop"}:
        draft.result.absent.append(f"worker class {value}: nothing corresponds to it")


def _interface(draft: Draft, _: Option, value: str) -> None:
    if value.startswith("asgi"):
        draft.flags["--asgi"] = []
    elif value.startswith("wsgi"):
        draft.flags["--wsgi"] = []
    elif value != "auto":
        draft.result.absent.append(f"interface {value}: serve it as WSGI or ASGI")


def _proxies(draft: Draft, option: Option, value: str) -> None:
    peers = ALL_PEERS if value.strip() == "*" else ",".join(value.replace(" ", "").split(","))
    draft.set(option.here, peers)


def _address(draft: Draft, value: str, suffix: str = "") -> None:
    host, colon, port = value.rpartition(":")
    if value.startswith("fd://"):
        draft.result.absent.append(f"{value}: sockets of systemd (LISTEN_FDS) need no option")
    elif value.startswith(("unix:", "/")) or value.endswith(".sock"):
        draft.addresses.append("unix:" + value.removeprefix("unix:").removeprefix("//") + suffix)
    elif not colon or value.endswith("]"):
        is_port = value.isdigit()
        draft.addresses.append((f"{ANYWHERE}:{value}" if is_port else f"{value}:8000") + suffix)
    else:
        draft.addresses.append(f"{host or ANYWHERE}:{port}{suffix}")


def _wsgi_file(draft: Draft, _: Option, value: str) -> None:
    path = PurePath(value)
    draft.app = path.stem
    if str(path.parent) != ".":
        draft.set("--app-dir", str(path.parent))


def _level(draft: Draft, option: Option, value: str) -> None:
    names = {"warn": "warning", "fatal": "critical", "trace": "debug"}
    level = names.get(value.lower(), value.lower())
    if level in {"critical", "error", "warning", "info", "debug"}:
        draft.set(option.here, level)
    else:
        draft.result.absent.append(f"log level {value}: it is no level of Python's logging")


def _scaled(unit: str) -> Callable[[Draft, Option, str], None]:
    def convert(draft: Draft, option: Option, value: str) -> None:
        # Servers take fractions of a second; a size has none.
        draft.set(option.here, f"{value}{unit}")

    return convert


def _attribute(name: str) -> Callable[[Draft, Option, str], None]:
    return lambda draft, _, value: setattr(draft, name, value)


KINDS: dict[str, Callable[[Draft, Option, str], None]] = {
    "absent": lambda *_: None,
    "default": lambda *_: None,
    "nolog": lambda draft, *_: draft.flags.pop("--access-log", None) and None,
    "text": lambda draft, option, value: draft.set(option.here, value),
    "first": lambda draft, option, value: draft.set(option.here, value.partition(",")[0]),
    "flag": lambda draft, option, _: draft.flags.update({option.here: []}),
    "on": lambda draft, option, value: draft.flags.update(
        {} if value == "0" else {option.here: []}
    ),
    "seconds": _scaled("s"),
    "milliseconds": _scaled("ms"),
    "mebibytes": _scaled("MiB"),
    "log": lambda draft, *_: draft.set("--access-log", "-"),
    "address": lambda draft, _, value: _address(draft, value),
    "uwsgi-address": lambda draft, _, value: _address(draft, value, ",uwsgi"),
    "uds": lambda draft, _, value: _address(draft, f"unix:{value}"),
    "host": _attribute("host"),
    "port": _attribute("port"),
    "module": _attribute("app"),
    "callable": _attribute("attribute"),
    "suffix": lambda draft, option, _: setattr(draft, "suffix", option.here),
    "protocol": lambda draft, _, value: setattr(draft, "suffix", f",{value}"),
    "proxies": _proxies,
    "level": _level,
    "worker-class": _worker_class,
    "interface": _interface,
    "env": lambda draft, _, value: draft.result.variables.append(value),
    "file": lambda draft, _, value: _read_file(value, draft),
    "wsgi-file": _wsgi_file,
    "route": lambda draft, _, value: draft.mounts[0].append(value),
    "mount": lambda draft, _, value: draft.mounts[1].append(value),
}


def _finish(draft: Draft) -> None:
    """Writes the line, and says what differs in any case."""
    result = draft.result
    app = draft.app
    for prefix in ("asgi:", "wsgi:"):
        if app.startswith(prefix):
            app = app.removeprefix(prefix)
            draft.flags[f"--{prefix[:-1]}"] = []
    attribute = draft.attribute or draft.server.attribute
    if app and ":" not in app and attribute:
        app = f"{app}:{attribute}"
    if not app:
        result.absent.append("no application is named: add MODULE:APP")
    result.words += [app] if app else []
    for address in _addresses(draft):
        result.words += ["--listen", address]
    for mount, folder in zip(draft.mounts[0] or ["/static"], draft.mounts[1], strict=False):
        draft.set("--static", f"{mount}={folder}")
    for flag, values in draft.flags.items():
        for value in values:
            result.words += [f"{flag}={value}"] if value.startswith("-") else [flag, value]
        result.words += [] if values else [flag]
    result.differs += _unless_given(draft.server.differs, draft.flags)


def _addresses(draft: Draft) -> Iterable[str]:
    if draft.host or draft.port:
        default_host, _, default_port = draft.server.default_address.rpartition(":")
        host, port = draft.host or default_host, draft.port or default_port
        draft.addresses.insert(0, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    if draft.suffix and not draft.addresses:
        draft.addresses.append(draft.server.default_address)
    is_said = draft.suffix and draft.suffix != ",http"
    return [f"{address}{draft.suffix}" if is_said else address for address in draft.addresses]


def _unless_given(differs: Iterable[str], flags: Iterable[str]) -> Iterator[str]:
    """What differs, without what the line says."""
    given = set(flags)
    for sentence in differs:
        if not given & set(re.findall(r"--[a-z-]+", sentence)):
            yield sentence
