"""A command line of another server as one of `jissoku serve`, and what differs."""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from ipaddress import ip_network
from pathlib import PurePath

from jissoku.errors import InputError
from jissoku.migrate import settings
from jissoku.migrate.tables import SERVERS, Option, Server, server

# Reads a file by its name.
Read = Callable[[str], str]

ANYWHERE = "0.0.0.0"  # noqa: S104 - what other servers mean by a port alone
ALL_PEERS = "0.0.0.0/0,::/0,unix"

# Stands for the application in a line that does not name it.
NO_APP = "MODULE:APP"
# `poetry run gunicorn`: programs that run another one in an environment of Python.
RUNNERS = {"poetry", "uv", "pipenv", "pdm", "hatch", "rye"}
# Variables whose words precede those of the command line.
ARGUMENTS = {"gunicorn": "GUNICORN_CMD_ARGS"}
# Variables that stand for options: NAME_WORKERS for --workers.
PREFIXES = {"uvicorn": "UVICORN_", "granian": "GRANIAN_"}


@dataclass(slots=True)
class Migration:
    """The line, what differs from the other server, and what has no counterpart.

    `config` is the configuration file that it names, `prefix` what precedes the program: `uv run`.
    """

    name: str
    prefix: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    config: str = ""

    @property
    def line(self) -> str:
        """The command line, to be pasted into a shell."""
        environment = ["env", *self.variables] if self.variables else []
        return shlex.join([*self.prefix, *environment, "jissoku", "serve", *self.words])


@dataclass(slots=True)
class Draft:
    server: Server
    result: Migration
    read: Read
    cpu_count: int
    app: str = ""
    app_configured: str = ""
    attribute: str = ""
    host: str = ""
    port: str = ""
    addresses: list[str] = field(default_factory=list)
    suffix: str = ""
    # Peers that each option trusts.
    proxies: dict[str, list[str]] = field(default_factory=dict)
    is_uvicorn: bool = False
    has_port: bool = False
    mounts: list[list[str]] = field(default_factory=lambda: [[], []])
    flags: dict[str, list[str]] = field(default_factory=dict)

    def set(self, flag: str, value: str) -> None:
        """Gives a flag its value; the last one holds, except of those that may be repeated."""
        if flag == "--static":
            self.flags.setdefault(flag, []).append(value)
        else:
            self.flags[flag] = [value]


def migrate(words: Sequence[str], read: Read, cpu_count: int = 1) -> Migration:
    """Translates a command line, with what precedes the name of the server.

    `cpu_count` is for configuration files in Python. InputError: the server or an option is
    unknown, several applications are named, or a file cannot be read.
    """
    prefix, variables, rest = _before_server(words)
    name = PurePath(rest[0]).name if rest else ""
    if name not in SERVERS:
        known = ", ".join((*SERVERS, "nginx"))
        raise InputError(f"{name or 'nothing'} is no server that is known: {known}")
    result = Migration(name, prefix)
    draft = Draft(server(name), result, read, cpu_count)
    given = [one for variable in variables for one in _variable(variable, draft)]
    given += _parsed(rest[1:], draft)
    # What is said elsewhere precedes what a file says, wherever the file is named.
    for one in (one for one in given if one[0].kind == "file"):
        _apply(*one, draft)
    if name == "gunicorn" and not any(option.kind == "file" for option, *_ in given):
        with suppress(InputError):
            _read_file("gunicorn.conf.py", draft)
    configured = draft.addresses
    draft.addresses = []
    for one in (one for one in given if one[0].kind != "file"):
        _apply(*one, draft)
    if name != "gunicorn" or not draft.addresses:
        draft.addresses = configured + draft.addresses
    _finish(draft)
    return result


def _before_server(words: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """The programs that start the server, variables of its environment, and its command line."""
    prefix: list[str] = []
    variables: list[str] = []
    rest = list(words)
    while rest:
        if re.fullmatch(r"\w+=.*", rest[0], re.DOTALL):
            variables.append(rest.pop(0))
        elif rest[0] == "env":
            rest.pop(0)
        elif rest[0] == "exec":
            prefix.append(rest.pop(0))
        elif rest[0] in RUNNERS and rest[1:2] == ["run"]:
            length = 3 if rest[2:3] == ["--"] else 2
            prefix += rest[:length]
            rest = rest[length:]
        elif re.fullmatch(r"(python|pypy)[\d.]*", PurePath(rest[0]).name) and "-m" in rest:
            rest = rest[rest.index("-m") + 1 :]
        else:
            break
    return prefix, variables, rest


def _variable(variable: str, draft: Draft) -> Iterator[tuple[Option, str, str]]:
    """The options that a variable of the server stands for; our line sets all others, too."""
    name, _, value = variable.partition("=")
    prefix = PREFIXES.get(draft.result.name, "")
    if name == ARGUMENTS.get(draft.result.name):
        yield from _parsed(shlex.split(value), draft)
    elif prefix and name.startswith(prefix):
        option_name = "--" + name.removeprefix(prefix).lower().replace("_", "-")
        option = _known(option_name, draft)
        if option.value or value.lower() in {"1", "true", "yes", "on", "t", "y"}:
            yield option, value, name
    elif name == "FORWARDED_ALLOW_IPS" and draft.server.find("--forwarded-allow-ips"):
        yield _known("--forwarded-allow-ips", draft), value, name
    else:
        draft.result.variables.append(variable)
        # Ours listens at this port if no address is given, as gunicorn does.
        draft.has_port |= name == "PORT" and draft.result.name != "gunicorn"


def _known(name: str, draft: Draft) -> Option:
    if option := draft.server.find(name):
        return option
    names = [one for option in draft.server.option for one in option.names]
    near = get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise InputError(f"{draft.result.name} has no option {name} that is known{hint}")


def _parsed(words: Sequence[str], draft: Draft) -> Iterator[tuple[Option, str, str]]:
    """The options with their values, and as they are spelled; other words are the application."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--" or not word.startswith("-") or word == "-":
            for operand in rest if word == "--" else [word]:
                _operand(operand, draft)
            rest = [] if word == "--" else rest
            continue
        name, equals, value = word.partition("=")
        option = draft.server.find(name)
        if option is None and not word.startswith("--"):
            name, value, equals = word[:2], word[2:], word[2:]
            option = draft.server.find(name)
        if option is None and draft.result.name == "uwsgi":
            # Its table has not all options, and its application is no operand.
            given = [rest.pop(0)] if not equals and rest and not rest[0].startswith("-") else []
            draft.result.absent.append(f"{' '.join([word, *given])}: no option that is known here")
            continue
        option = option or _known(name, draft)
        if not equals and (option.value or (rest and rest[0] in option.choices)):
            if not rest:
                raise InputError(f"{name} of {draft.result.name} needs a value")
            value = rest.pop(0)
        elif value and not option.value and not word.startswith("--"):
            # `-Dw4` is `-D -w4`.
            rest.insert(0, f"-{value}")
        yield option, value, name


def _operand(word: str, draft: Draft) -> None:
    if draft.result.name == "uwsgi" and word.endswith(".ini"):
        _read_file(word, draft)
    elif draft.result.name == "uwsgi" and word.endswith((".py", ".wsgi")):
        draft.app = _module_of_path(draft, word)
    elif draft.app and word != draft.app:
        raise InputError(f"{draft.result.name} serves one application: {draft.app} or {word}?")
    else:
        draft.app = word


def _read_file(name: str, draft: Draft) -> None:
    path = name.removeprefix("file:")
    if draft.result.name == "hypercorn" or path.startswith("python:"):
        draft.result.absent.append(f"{name}: write its keys as options")
        return
    text = draft.read(path)
    try:
        if draft.result.name == "uwsgi":
            found = list(settings.of_ini(text))
        else:
            found = list(settings.of_python(text, draft.cpu_count))
    except SyntaxError as error:
        raise InputError(f"{path}, line {error.lineno}: {error.msg}") from error
    for key, value, why in found:
        if key == "wsgi_app" and value:
            draft.app_configured = value
        else:
            _setting(key, value, f"{path}, {why}", draft)


def _setting(key: str, value: str | None, why: str, draft: Draft) -> None:
    option = draft.server.of_setting(key)
    if value is None:
        hint = f"; write {option.here} VALUE" if option and option.here else ""
        draft.result.absent.append(f"{key} ({why}){hint}")
    elif option is None:
        draft.result.absent.append(f"{key} ({why}): not a setting that is known")
    elif value not in {"False", "None"}:
        _apply(option, value, f"{key} ({why})", draft)
        if ": " in why:
            draft.result.differs.append(f"{key} = {value} ({why})")


def _apply(option: Option, value: str, spelled: str, draft: Draft) -> None:
    KINDS[option.kind](draft, option, value)
    shown = spelled if not option.value or not value else f"{spelled} {value}"
    if option.kind == "absent":
        draft.result.absent.append(f"{shown}: {option.note}")
    elif option.note:
        draft.result.differs.append(f"{shown}: {option.here} {option.note}")


def _worker_class(draft: Draft, _: Option, value: str) -> None:
    draft.is_uvicorn = "uvicorn" in value.lower()
    if draft.is_uvicorn or value == "asgi":
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
    peers = draft.proxies[option.key] = []
    for peer in value.replace(" ", "").split(","):
        if peer == "*":
            peers.append(ALL_PEERS)
            draft.result.differs.append(
                f"{option.names[0]} *: any client can claim {{}} of its requests, as with"
                f" {draft.result.name}; better name the addresses of the proxies"
            )
        else:
            try:
                ip_network(peer, strict=False)
                peers.append(peer)
            except ValueError:
                draft.result.absent.append(f"{option.names[0]} {peer}: it is no address")


def _trust(draft: Draft) -> None:
    """Gives the proxies no more than they had."""
    is_gunicorn = draft.result.name == "gunicorn" and not draft.is_uvicorn
    peers = dict.fromkeys(peer for peers in draft.proxies.values() for peer in peers)
    if peers and is_gunicorn and any("unix:" in address for address in draft.addresses):
        peers["unix"] = None
    if peers:
        draft.set("--trusted-proxies", ALL_PEERS if ALL_PEERS in peers else ",".join(peers))
    if peers and is_gunicorn:
        draft.set("--forwarded-fields", "x-forwarded-proto")
    claim = "the scheme" if is_gunicorn else "the address and the scheme"
    draft.result.differs = [one.replace("{}", claim) for one in draft.result.differs]


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


def _module_of_path(draft: Draft, value: str) -> str:
    """The module in a file, whose folder becomes that of the application."""
    path = PurePath(value)
    if str(path.parent) != ".":
        draft.set("--app-dir", str(path.parent))
    return path.stem


def _level(draft: Draft, option: Option, value: str) -> None:
    names = {"warn": "warning", "fatal": "critical", "trace": "debug"}
    level = names.get(value.lower(), value.lower())
    if level in {"critical", "error", "warning", "info", "debug"}:
        draft.set(option.here, level)
    else:
        draft.result.absent.append(f"log level {value}: it is no level of Python's logging")


def _limit(draft: Draft, option: Option, value: str) -> None:
    if value == "0":
        draft.result.differs.append(f"{option.names[0]} 0: here {option.here} has a default")
    else:
        draft.set(option.here, value)


def _path(draft: Draft, option: Option, value: str) -> None:
    if path := value.strip("/"):
        draft.set(option.here, f"/{path}")


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
    "limit": _limit,
    "path": _path,
    "seconds": lambda draft, option, value: draft.set(option.here, f"{value}s"),
    "milliseconds": lambda draft, option, value: draft.set(option.here, f"{value}ms"),
    "mebibytes": lambda draft, option, value: draft.set(option.here, f"{value}MiB"),
    "log": lambda draft, *_: draft.set("--access-log", "-"),
    "address": lambda draft, _, value: _address(draft, value),
    "uwsgi-address": lambda draft, _, value: _address(draft, value, ",uwsgi"),
    "uds": lambda draft, _, value: _address(draft, f"unix:{value}"),
    "host": _attribute("host"),
    "port": _attribute("port"),
    "module": _attribute("app"),
    "callable": _attribute("attribute"),
    "suffix": lambda draft, option, value: setattr(
        draft, "suffix", "" if value.lower() == "off" else option.here
    ),
    "protocol": lambda draft, _, value: setattr(draft, "suffix", f",{value}"),
    "proxies": _proxies,
    "level": _level,
    "worker-class": _worker_class,
    "interface": _interface,
    "env": lambda draft, _, value: draft.result.variables.append(value),
    "file": lambda draft, _, value: _read_file(value, draft),
    "wsgi-file": lambda draft, _, value: setattr(draft, "app", _module_of_path(draft, value)),
    "route": lambda draft, _, value: draft.mounts[0].append(value),
    "mount": lambda draft, _, value: draft.mounts[1].append(value),
}


def _finish(draft: Draft) -> None:
    """Writes the line, and says what differs in any case."""
    result = draft.result
    app = _application(draft)
    if not app:
        result.absent.append(f"no application is named: write it instead of {NO_APP}")
    result.words.append(app or NO_APP)
    _trust(draft)
    for address in _addresses(draft):
        result.words += ["--listen", address]
    for mount, folder in zip(draft.mounts[0] or ["/static"], draft.mounts[1], strict=False):
        draft.set("--static", f"{mount}={folder}")
    for flag, values in draft.flags.items():
        for value in values:
            result.words += [f"{flag}={value}"] if value.startswith("-") else [flag, value]
        result.words += [] if values else [flag]
    # Without what the line says.
    result.differs += [
        sentence
        for sentence in draft.server.differs
        if draft.flags.keys().isdisjoint(re.findall(r"--[a-z-]+", sentence))
    ]


def _application(draft: Draft) -> str:
    """As MODULE:APP; empty if none is named. InputError: what is named is none."""
    app, name = draft.app or draft.app_configured, draft.result.name
    # Only Hypercorn's applications may begin with their interface: wsgi:MODULE:APP.
    if name == "hypercorn" and (found := re.fullmatch(r"(asgi|wsgi):([^:(]+:.*)", app)):
        draft.flags[f"--{found[1]}"] = []
        app = found[2]
    module, _, attribute = app.partition(":")
    if module.endswith(".py") and name in {"granian", "hypercorn"}:
        module = _module_of_path(draft, module)
    attribute = draft.attribute or attribute or draft.server.attribute
    if not app:
        return ""
    if not attribute or not _is_dotted(module) or not _is_dotted(attribute.partition("(")[0]):
        raise InputError(f"{app} names no application: {NO_APP}, both with names of Python")
    return f"{module}:{attribute}"


def _is_dotted(text: str) -> bool:
    return all(name.isidentifier() for name in text.split("."))


def _addresses(draft: Draft) -> Iterable[str]:
    if draft.host or draft.port:
        default_host, _, default_port = draft.server.default_address.rpartition(":")
        host, port = draft.host or default_host, draft.port or default_port
        draft.addresses.insert(0, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    if (draft.suffix or draft.has_port) and not draft.addresses and draft.server.default_address:
        draft.addresses.append(draft.server.default_address)
    is_said = draft.suffix and draft.suffix != ",http"
    return [f"{address}{draft.suffix}" if is_said else address for address in draft.addresses]
