"""A HAProxy configuration as lines that are edited in place, so that a diff stays small.

A line is one directive (HAProxy configuration manual, 2.1); the first word of some begins a section
that lasts until the next. An edit replaces, removes or adds whole lines; every other byte stays.

To run next to the machine's own HAProxy, only the necessary changes are made, the same in every
arm, and every change is reported: addresses, user, and paths it writes to. Servers behind it stay
as configured.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jissoku.errors import InputError
from jissoku.model import ChangeKind, ConfigFile, Knob, KnobChange
from jissoku.system.address import Address
from jissoku.targets import user_configuration
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.user_configuration import ListenAddress, of_user, tcp_address

INDENT = "    "

# Words that begin a section (configuration manual, 2 and 4).
SECTIONS = frozenset(
    (
        *("backend", "cache", "defaults", "fcgi-app", "frontend", "global", "http-errors"),
        *("listen", "mailers", "peers", "program", "resolvers", "ring", "userlist"),
    )
)

# Proxies, which have what `defaults` says unless they say otherwise.
PROXIES = frozenset({"backend", "frontend", "listen"})
DEFAULTS = "defaults"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line, its words without quotes and comments, and the word that began its section."""

    section: str
    words: tuple[str, ...]
    text: str
    opens: bool = False

    def begins(self, directive: str) -> bool:
        words = tuple(directive.split())
        return bool(words) and not self.opens and self.words[: len(words)] == words

    def written(self, directive: str) -> str:
        """The line with another directive; empty for none."""
        indent = self.text[: len(self.text) - len(self.text.lstrip())]
        return f"{indent}{directive}\n" if directive else ""


def read(path: Path) -> str:
    """InputError: it cannot be read, or has no proxy that listens."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8, and could not be written back as it is") from error
    if not any(line.begins("bind") for line in lines(text)):
        raise InputError(f"{path}: no `bind` in it: is it a configuration of HAProxy?")
    return text


def lines(text: str) -> Iterator[Line]:
    section = ""
    for line in text.splitlines(keepends=True):
        words = _words(line)
        opens = bool(words) and words[0] in SECTIONS
        section = words[0] if opens else section
        yield Line(section=section, words=words, text=line, opens=opens)


def switch(text: str, *knobs: Knob) -> str:
    for change in (change for knob in knobs for change in knob.change):
        if change.kind is ChangeKind.LINE:
            text = _changed(text, change)
    return text


def unfit(text: str, knob: Knob) -> str:
    """Why a knob has no effect here, as the end of a sentence; empty if it has one."""
    if not all(change.kind is ChangeKind.LINE for change in knob.change):
        return "is not a directive"
    if knob.needs and not any(line.begins(knob.needs) for line in lines(text)):
        return f"needs `{knob.needs}`, which is not set"
    return ""


def _changed(text: str, change: KnobChange) -> str:
    """Replaces the directives that a change names wherever they are in its scope.

    If none is there, the new one is added to the section, unless that is the default. A change
    without a value removes them.
    """
    named = change.name.split("|")
    wanted = tuple(change.value.split())
    scope = {change.where} | (PROXIES if change.where == DEFAULTS else frozenset())
    changed: list[str] = []
    openings: list[int] = []
    stands = False
    for line in lines(text):
        is_set = line.words == wanted
        is_named = any(map(line.begins, named))
        stands |= line.section == change.where and (is_set or is_named)
        is_changed = line.section in scope and is_named and not is_set
        changed.append(line.written(change.value) if is_changed else line.text)
        if line.opens and line.section == change.where:
            openings.append(len(changed))
    if not stands and change.value not in {"", change.default}:
        for at in reversed(openings):
            changed.insert(at, f"{INDENT}{change.value}\n")
    return "".join(changed)


def _words(line: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(line, comments=True))
    except ValueError:
        # An open quote: HAProxy rejects it, and says where.
        return tuple(line.split())


NAME = "haproxy.cfg"

# Of the section `global`: set by the lab, or another HAProxy's place.
REMOVED = (
    *("chroot", "cpu-map", "daemon", "gid", "group", "localpeer", "master-worker", "node"),
    *("pidfile", "server-state-base", "stats socket", "uid", "user"),
)

# Sections that listen for other instances.
REMOVED_SECTIONS = frozenset({"peers", "program"})

# Parameters of bind that say what is spoken, with the number of their words.
SPOKEN = {"ssl": 1, "crt": 2, "alpn": 2}


def choose_listen_address(path: Path, text: str, wanted: str = "") -> ListenAddress:
    """The first address of a frontend that does not only redirect, rather without TLS."""
    found: dict[str, ListenAddress] = {}
    for section in _sections(text):
        redirects = any(map(_redirects, section))
        for line in section:
            if not line.begins("bind") or len(line.words) == 1:
                continue
            addresses, parameters = line.words[1], line.words[2:]
            if "accept-proxy" in parameters or addresses.startswith(("unix@", "/", "quic")):
                continue
            one = ListenAddress(address=addresses, is_tls="ssl" in parameters, redirects=redirects)
            found.setdefault(addresses, one)
    return user_configuration.choose(found, wanted, path)


def describe_changes(chosen: ListenAddress) -> tuple[str, ...]:
    tls = ", with TLS" if chosen.is_tls else ""
    return (
        f"bind {chosen.address}: a free port of 127.0.0.1{tls}",
        "every other address: a Unix socket that gets no requests",
        "user, group, chroot, daemon, pid file, cpu-map and the statistics socket: removed",
        "log of the section global: standard error, which the lab keeps, in place of a log server",
        "peers and program sections: removed",
    )


def prepared(base: PreparedTarget, text: str, chosen: ListenAddress) -> PreparedTarget:
    """The configuration as a prepared target; `base` is HAProxy as prepared from its recipe."""
    return of_user(
        base,
        "haproxy",
        chosen=chosen,
        command=("{program}", "-db", "-f", f"{{run}}/{NAME}"),
        unix="unix@{socket}",
        config=(ConfigFile(name=NAME, text=moved(text, chosen)),),
        upstreams=upstreams(text),
        # As a service manager starts it: relative paths are of this folder.
        folder=Path("/"),
    )


def moved(text: str, chosen: ListenAddress) -> str:
    sockets: dict[str, str] = {}
    return "".join(
        _moved(line, chosen, sockets)
        for line in lines(text)
        if line.section not in REMOVED_SECTIONS
    )


def _moved(line: Line, chosen: ListenAddress, sockets: dict[str, str]) -> str:
    if line.section == "global":
        if any(map(line.begins, REMOVED)):
            return ""
        if line.begins("log") and len(line.words) > 2:
            return line.written(f"log stderr format rfc3164 {' '.join(_levels(line.words))}")
    if line.begins("bind") and len(line.words) > 1:
        _, address, *parameters = line.words
        if address == chosen.address:
            return line.written(" ".join(["bind", "{listen}", *_kept(parameters)]))
        socket = sockets.setdefault(address, f"{{run}}/other-{len(sockets)}.sock")
        # Without parameters: it gets no requests, and its certificates may not be readable here.
        return line.written(f"bind unix@{socket}")
    return line.text


def _kept(rest: list[str]) -> Iterator[str]:
    while rest:
        count = SPOKEN.get(rest[0], 0)
        yield from rest[:count]
        del rest[: max(1, count)]


def _levels(words: tuple[str, ...]) -> tuple[str, ...]:
    """Facility and levels of a log line, after its address and its options of two words."""
    rest = words[2:]
    while rest and rest[0] in {"len", "format", "sample", "profile"}:
        rest = rest[2:]
    return rest


def _redirects(line: Line) -> bool:
    """Whether every request is redirected to https (`redirect scheme https`, unconditionally)."""
    words = line.words[1:] if line.words[:1] == ("http-request",) else line.words
    plain = words[:3] == ("redirect", "scheme", "https")
    return plain and ("if" not in words or "ssl_fc" in words)


def _sections(text: str) -> Iterator[list[Line]]:
    section: list[Line] = []
    for line in lines(text):
        if line.opens:
            yield section
            section = []
        section.append(line)
    yield section


# HAProxy: prefixes of an address (configuration manual, 11.1), and directives that have one.
FAMILIES = re.compile(r"^(?:stream\+)?(?:ipv4|ipv6|tcp|tcp4|tcp6)@")
SERVERS = {"server": 2, "server-template": 3}


def upstreams(text: str) -> tuple[Address, ...]:
    """Addresses of `server` and `server-template` lines; those without a port are left out."""
    found: dict[Address, None] = {}
    for line in lines(text):
        position = SERVERS.get(line.words[0]) if line.words else None
        if position is None or line.opens or len(line.words) <= position:
            continue
        text = FAMILIES.sub("", line.words[position]).removeprefix("unix@")
        one = Address(socket=text) if text.startswith("/") else tcp_address(text)
        if one is not None:
            found[one] = None
    return tuple(found)
