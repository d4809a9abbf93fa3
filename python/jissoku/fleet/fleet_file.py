"""`fleet.toml`: the hosts of a fleet, as ssh and as agents are reached, and its benches."""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from jissoku.errors import InputError
from jissoku.fleet.keys import ListenAddress
from jissoku.measure.selection import RequestOfHost
from jissoku.request import ComparisonRequest
from jissoku.system import toml_file

DEFAULT_FILE = Path("fleet.toml")

# A destination of ssh: an alias, a host, or USER@HOST. It is a word of a command line, in which
# one that begins with - would be an option.
NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.@:%-]*[A-Za-z0-9_])?")

AskedOf = TypeVar("AskedOf", bound=RequestOfHost)

# The option of each field of a request that names hosts, or their keys.
OPTIONS = {
    "machine": "--machine",
    "server_host": "--server-host",
    "load_host": "--load-host",
    "server_keys": "--server-keys",
}


class Host(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A host of a fleet.

    Attributes:
        name: Destination of ssh.
        address: HOST:PORT at which its agent listens, for the client and for the other hosts.
        program: That of jissoku there. Default: jissoku on the PATH, or in ~/.local/bin.
        agent: Further words of `jissoku agent`, such as --allow-commands.
    """

    name: str
    address: str
    program: str = ""
    agent: str = ""

    def listen(self) -> ListenAddress:
        return ListenAddress.parse(self.address, "address")

    def options(self) -> tuple[str, ...]:
        return _words(self.agent)


class Bench(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A host of servers, and the hosts of their load; without any, the load is the client's."""

    name: str
    server: str
    load: tuple[str, ...] = ()


class FleetFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of the file.

    Attributes:
        ssh: The command that starts ssh, with its options.
        keys: Folder of the keys; a relative path begins at the folder of the file.
    """

    host: tuple[Host, ...]
    bench: tuple[Bench, ...] = ()
    ssh: str = "ssh"
    keys: str = "fleet.keys"


@dataclass(frozen=True, slots=True)
class Fleet:
    """A file that was read and checked."""

    file: Path
    hosts: tuple[Host, ...]
    benches: tuple[Bench, ...]
    ssh: tuple[str, ...]
    keys: Path

    def host(self, name: str) -> Host:
        return next(one for one in self.hosts if one.name == name)

    def load_to(self, host: Host) -> tuple[str, ...]:
        """The hosts to which this one sends load, in any of its benches."""
        servers = {bench.server: None for bench in self.benches if host.name in bench.load}
        return tuple(self.host(name).listen().host for name in servers)


def read_fleet(file: Path) -> Fleet:
    """InputError names file, line and key of what is wrong."""
    if not file.exists():
        raise InputError(f"there is no {file}: `jissoku fleet init HOST...` writes it")
    found = toml_file.read(file, FleetFile)
    for keys, wrong in _mistakes(found):
        raise toml_file.mistake(file.name, file.read_text(encoding="utf-8"), keys, wrong)
    place = (file.parent / Path(found.keys).expanduser()).absolute()
    return Fleet(file, found.host, found.bench, _words(found.ssh), place)


def _words(text: str) -> tuple[str, ...]:
    """As a shell reads them; none if it cannot."""
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return ()


def check_name(name: str) -> None:
    """InputError for what is no destination of ssh."""
    if not NAME.fullmatch(name):
        raise InputError(
            f"{name!r} is no destination of ssh: write HOST, USER@HOST, or a Host of ~/.ssh/config"
        )


def _mistakes(found: FleetFile) -> Iterator[tuple[toml_file.Keys, str]]:
    """What is wrong, and the path to its key."""
    if not _words(found.ssh):
        yield ("ssh",), f"{found.ssh!r} is no command"
    if not found.host:
        yield ("host",), "there is none"
    hosts = [host.name for host in found.host]
    for kind, key, values in (
        ("host", "name", hosts),
        ("host", "address", [host.address for host in found.host]),
        ("bench", "name", [bench.name for bench in found.bench]),
    ):
        for index, value in enumerate(values):
            if values.index(value) < index:
                yield (kind, index, key), f"{value!r} is there twice"
    for index, host in enumerate(found.host):
        for key, wrong in _wrong_of_host(host):
            yield ("host", index, key), wrong
    for index, bench in enumerate(found.bench):
        for key, wrong in _wrong_of_bench(bench, hosts):
            yield ("bench", index, key), wrong


def _wrong_of_host(host: Host) -> Iterator[tuple[str, str]]:
    for key, check in {"name": check_name, "address": _check_address}.items():
        try:
            check(getattr(host, key))
        except InputError as error:
            yield key, str(error)
    if host.agent and not host.options():
        yield "agent", f"{host.agent!r} are no words of a command line"


def _wrong_of_bench(bench: Bench, hosts: Sequence[str]) -> Iterator[tuple[str, str]]:
    for key, names in {"server": (bench.server,), "load": bench.load}.items():
        for name in names:
            if name not in hosts:
                yield key, f"{name!r} is none of the hosts: {', '.join(hosts)}"
    if bench.server in bench.load or len(set(bench.load)) < len(bench.load):
        yield "load", "each host of a bench has one part in it"


def _check_address(text: str) -> None:
    ListenAddress.parse(text, "address")


def with_addresses(request: AskedOf) -> AskedOf:
    """A request whose hosts are addresses: names of fleet.toml are replaced, and its keys used.

    InputError: there is no such file, or it has no such host.
    """
    given = {
        "server_host": (request.server_host,),
        "load_host": getattr(request, "load_host", ()),
        "machine": getattr(request, "machine", ()),
    }
    named = [(OPTIONS[field], text) for field in given for text in given[field] if _is_name(text)]
    if not named:
        return request
    if not DEFAULT_FILE.exists():
        raise InputError(
            f"{' '.join(named[0])}: write HOST:PORT, as in 127.0.0.1:7470, or the name of a host in"
            f" {DEFAULT_FILE}, which is not in this folder"
        )
    fleet = read_fleet(DEFAULT_FILE)
    addresses = {host.name: host.address for host in fleet.hosts}
    for option, name in named:
        if name not in addresses:
            known = ", ".join(addresses)
            raise InputError(
                f"{option} {name}: write HOST:PORT, or a host of {fleet.file}: {known}"
            )
    found = {
        field: tuple(addresses[text] if _is_name(text) else text for text in texts)
        for field, texts in given.items()
        if texts
    }
    (server_host,) = found.pop("server_host")
    keys = request.server_keys or str(fleet.keys)
    return msgspec.structs.replace(request, server_host=server_host, **found, server_keys=keys)


def _is_name(text: str) -> bool:
    """Whether it is no HOST:PORT; an empty text is neither."""
    return bool(text) and ":" not in text


def on_fleet(request: ComparisonRequest, file: Path | None, bench: str) -> ComparisonRequest:
    """The comparison on every host of a fleet, on one of its benches, or on the hosts it names."""
    if file is None and not bench:
        return with_addresses(request)
    option = f"--bench {bench}" if bench else "--fleet"
    if given := next((name for name in OPTIONS if getattr(request, name)), None):
        raise InputError(f"{option}: the file names hosts and keys: leave out {OPTIONS[given]}")
    fleet = read_fleet(file or DEFAULT_FILE)
    keys = str(fleet.keys)
    if not bench:
        machines = tuple(host.address for host in fleet.hosts)
        return msgspec.structs.replace(request, machine=machines, server_keys=keys)
    found = next((one for one in fleet.benches if one.name == bench), None)
    if found is None:
        known = ", ".join(one.name for one in fleet.benches) or "none"
        raise InputError(f"{option}: {fleet.file} has no such bench; there are {known}")
    return msgspec.structs.replace(
        request,
        server_host=fleet.host(found.server).address,
        load_host=tuple(fleet.host(name).address for name in found.load),
        server_keys=keys,
    )
