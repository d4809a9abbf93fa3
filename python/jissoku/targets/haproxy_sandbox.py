"""The user's HAProxy configuration, changed to run next to the machine's own HAProxy.

Only the necessary changes are made, the same in every arm, and every change is reported: addresses,
user, and paths it writes to. Servers behind it stay as configured.
"""

from collections.abc import Iterator
from pathlib import Path

from jissoku.model import ConfigFile
from jissoku.targets import user_configuration
from jissoku.targets.haproxy_config import Line, lines
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.user_configuration import ListenAddress, of_user

NAME = "haproxy.cfg"

# Of the section `global`: set by the lab, or another HAProxy's place.
REMOVED = (
    ("chroot",),
    ("cpu-map",),
    ("daemon",),
    ("gid",),
    ("group",),
    ("localpeer",),
    ("master-worker",),
    ("node",),
    ("pidfile",),
    ("server-state-base",),
    ("stats", "socket"),
    ("uid",),
    ("user",),
)

# Sections that listen for other instances.
REMOVED_SECTIONS = frozenset({"peers", "program"})

# Parameters of bind that say what is spoken, with the number of their words.
SPOKEN = {"ssl": 1, "crt": 2, "alpn": 2}


def choose_listen_address(path: Path, text: str, wanted: str = "") -> ListenAddress:
    """The first address of a frontend that does not only redirect, rather without TLS.

    Raises:
        InputError: There is none, or not the one named.
    """
    found: dict[str, ListenAddress] = {}
    for section in _sections(text):
        redirects = any(map(_redirects, section))
        for line in section:
            if not line.begins(("bind",)) or len(line.words) == 1:
                continue
            addresses, parameters = line.words[1], line.words[2:]
            if "accept-proxy" in parameters or addresses.startswith(("unix@", "/", "quic")):
                continue
            one = ListenAddress(address=addresses, is_tls="ssl" in parameters, redirects=redirects)
            found.setdefault(addresses, one)
    return user_configuration.choose(found, wanted, path)


def describe_changes(chosen: ListenAddress) -> tuple[str, ...]:
    """Describes the changes that let it run beside the machine's own HAProxy."""
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
        upstreams=user_configuration.of_haproxy(text),
        # As a service manager starts it: relative paths are of this folder.
        folder=Path("/"),
    )


def moved(text: str, chosen: ListenAddress) -> str:
    """The configuration as it runs in the lab."""
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
        if line.begins(("log",)) and len(line.words) > 2:
            return line.written(f"log stderr format rfc3164 {' '.join(_levels(line.words))}")
    if line.begins(("bind",)) and len(line.words) > 1:
        return line.written(_bind(line.words[1:], chosen, sockets))
    return line.text


def _bind(words: tuple[str, ...], chosen: ListenAddress, sockets: dict[str, str]) -> str:
    if words[0] == chosen.address:
        return " ".join(["bind", "{listen}", *_kept(words[1:])])
    socket = sockets.setdefault(words[0], f"{{run}}/other-{len(sockets)}.sock")
    # Without parameters: it gets no requests, and its certificates may not be readable here.
    return f"bind unix@{socket}"


def _kept(words: tuple[str, ...]) -> Iterator[str]:
    """The parameters that say what is spoken, without those of one socket."""
    rest = list(words)
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
