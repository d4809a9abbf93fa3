"""Keys of agents and their client: an authority, certificates and a token, in one folder.

Only the owner of the folder can read it. The program `openssl` makes the keys, once: Python's ssl
module cannot make certificates, and for three of them no further library is worth a dependency.
Python's ssl module uses them. The key of the authority is deleted when all certificates are
signed, so that no further one can be made.
"""

import datetime as dt
import ipaddress
import os
import re
import secrets
import shutil
import ssl
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jissoku.errors import InputError, JissokuError

DAYS = 7
TOKEN_BYTES = 32

# A name or an IPv4 address; one of version 6 is in brackets.
HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")

AUTHORITY, TOKEN = "ca.crt", "token"
AGENT, CLIENT = "agent", "client"

# One file for all calls; the sections are those of the three certificates. No line of it is secret.
CONFIG = """
[req]
distinguished_name = name
prompt = no
[name]
CN = jissoku {role}
[authority]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[agent]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = {names}
[client]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A host and a port, as `--listen` and `--server-host` have them."""

    host: str
    port: int

    @property
    def text(self) -> str:
        """As `parse` reads it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str, option: str) -> "ListenAddress":
        """Reads HOST:PORT; InputError for another form, and for an address of all interfaces."""
        host, colon, port = text.rpartition(":")
        is_port = port.isascii() and port.isdigit() and 0 < int(port) < 65_536
        is_bracketed = host.startswith("[") and host.endswith("]")
        host = host[1:-1] if is_bracketed else host
        is_host = _is_ipv6(host) if is_bracketed else HOST.fullmatch(host)
        if not colon or not is_port or not is_host:
            raise InputError(
                f"{option} {text!r}: write HOST:PORT, as in 127.0.0.1:7470 or [::1]:7470"
            )
        if _is_ip(host) and ipaddress.ip_address(host).is_unspecified:
            raise InputError(
                f"{option} {text!r}: name one address of this host, which the load can reach"
            )
        return cls(host, int(port))


def default_folder() -> Path:
    """The user's folder for keys (XDG base directory specification)."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    home = Path(base) if Path(base).is_absolute() else Path("~/.config").expanduser()
    return home / "jissoku" / "fleet"


def make_keys(folder: Path, *hosts: str, is_shared: bool = True) -> None:
    """Makes the keys of agents at host names or addresses, in a new or empty folder.

    Shared, all agents have one certificate, and each of their hosts can pass for any other.
    Otherwise each host has its own, which `keys_of_host` reads.

    InputError if the folder has files, or a host is none. JissokuError if openssl is missing or
    fails; nothing is left then.
    """
    for host in hosts:
        if not (HOST.fullmatch(host) or _is_ipv6(host)):
            raise InputError(f"{host!r} is no name or address of a host")
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} has files: remove them, or name another folder with --keys")
    program = shutil.which("openssl")
    if program is None:
        raise JissokuError(
            "there is no program openssl, which makes keys: sudo apt-get install openssl"
        )
    agents = {AGENT: hosts} if is_shared else {_agent_of(host): (host,) for host in hosts}
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".keys-") as made:
            place = Path(made)  # Of mode 0700.
            _make(program, place, agents)
            folder.mkdir(mode=0o700, exist_ok=True)
            folder.chmod(0o700)
            certificates = (name for role in (*agents, CLIENT) for name in _files(role))
            for name in (AUTHORITY, TOKEN, *certificates):
                (place / name).chmod(0o600)
                (place / name).rename(folder / name)
    except OSError as error:
        raise JissokuError(f"{folder} cannot be made: {error.strerror}") from error


def keys_of_host(folder: Path, host: str) -> dict[str, str]:
    """The files that the agent at a host needs, by the names that it reads them by.

    InputError if the folder has none for this host, or others could read them.
    """
    own = _files(_agent_of(host))
    _check_private(folder, (AUTHORITY, TOKEN, *own))
    sources = (AUTHORITY, TOKEN, *own)
    names = (AUTHORITY, TOKEN, *_files(AGENT))
    return {
        name: (folder / source).read_text(encoding="ascii")
        for name, source in zip(names, sources, strict=True)
    }


def _agent_of(host: str) -> str:
    return f"{AGENT}-{host}"


def _files(role: str) -> tuple[str, str]:
    return f"{role}.crt", f"{role}.key"


def _make(program: str, place: Path, agents: Mapping[str, Sequence[str]]) -> None:
    """`agents` has the hosts that each certificate of an agent names."""
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    config = ("-config", "authority.cnf", "-extensions", "authority", "-days", str(DAYS))
    _configure(place, "authority", ())
    _run(program, place, "req", "-x509", *new_key, *config, "-keyout", "ca.key", "-out", AUTHORITY)
    for role, hosts in {**agents, CLIENT: ()}.items():
        _configure(place, role, hosts)
        certificate, key = _files(role)
        asked = ("-config", f"{role}.cnf", "-keyout", key, "-out", f"{role}.csr")
        _run(program, place, "req", "-new", *new_key, *asked)
        signed = ("-CA", AUTHORITY, "-CAkey", "ca.key", "-CAcreateserial", "-days", str(DAYS))
        section = AGENT if hosts else CLIENT
        named = ("-extfile", f"{role}.cnf", "-extensions", section, "-out", certificate)
        _run(program, place, "x509", "-req", "-in", f"{role}.csr", *signed, *named)
    (place / TOKEN).write_text(secrets.token_hex(TOKEN_BYTES), encoding="ascii")


def _configure(place: Path, role: str, hosts: Sequence[str]) -> None:
    names = ", ".join(f"{'IP' if _is_ip(host) else 'DNS'}:{host}" for host in hosts)
    # Only the section of an agent has names.
    text = CONFIG.format(role=role.partition("-")[0], names=names or "DNS:localhost")
    (place / f"{role}.cnf").write_text(text, encoding="utf-8")


def _run(program: str, place: Path, *words: str) -> None:
    done = subprocess.run(
        [program, *words],
        cwd=place,
        env={"PATH": os.defpath, "RANDFILE": os.devnull},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        umask=0o077,
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise JissokuError(f"openssl {words[0]} failed: {said}")


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_ipv6(host: str) -> bool:
    """Whether it is an address without a zone: a certificate cannot name one that has it."""
    return _is_ip(host) and ":" in host and "%" not in host


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one end."""

    context: ssl.SSLContext
    token: bytes


def read_keys(folder: Path, role: str, host: str = "") -> Keys:
    """Reads the keys of the agent or the client; of an agent at a host that has its own, these.

    InputError if they are not there, others could read them, they are no keys, or have expired.
    """
    certificate, key = _files(role)
    if role == AGENT and (folder / _files(_agent_of(host))[0]).exists():
        certificate, key = _files(_agent_of(host))
    _check_private(folder, (AUTHORITY, TOKEN, certificate, key))
    kind = ssl.PROTOCOL_TLS_SERVER if role == AGENT else ssl.PROTOCOL_TLS_CLIENT
    context = ssl.SSLContext(kind)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    if role == AGENT:
        context.num_tickets = 0  # A session is never resumed: each connection proves itself.
    try:
        context.load_verify_locations(folder / AUTHORITY)
        context.load_cert_chain(folder / certificate, folder / key)
        token = bytes.fromhex((folder / TOKEN).read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise InputError(f"{folder} has no valid keys: {error}; {_remedy(folder)}") from error
    if len(token) != TOKEN_BYTES:
        raise InputError(f"{folder / TOKEN} is no token; {_remedy(folder)}")
    until = str(context.get_ca_certs()[0]["notAfter"])
    if ssl.cert_time_to_seconds(until) <= _now_s():
        raise InputError(f"the keys in {folder} were valid until {until}; {_remedy(folder)}")
    return Keys(context, token)


def _now_s() -> float:
    return dt.datetime.now(dt.UTC).timestamp()


def _remedy(folder: Path) -> str:
    if any(folder.glob(f"{_agent_of('*')}.crt")):
        return (
            "remove that folder, then `jissoku fleet down`, `jissoku fleet init` and"
            " `jissoku fleet up` give all hosts new ones"
        )
    return (
        "make them with `jissoku agent --make-keys --listen HOST:PORT` on the servers' host, and"
        " copy the folder to this one; or, for hosts of `jissoku fleet`, with `jissoku fleet init`"
    )


def _check_private(folder: Path, names: tuple[str, ...]) -> None:
    for path in (folder, *(folder / name for name in names)):
        try:
            found = path.stat()
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}; {_remedy(folder)}") from error
        if found.st_uid != os.getuid():
            raise InputError(f"{path} belongs to another user, and is not used")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise InputError(f"{path} can be read by others: chmod go= {path}")
