"""What `jissoku fleet` does on a host: a question on standard input, its answer on standard output.

`jissoku fleet over-ssh` runs it there, started by ssh. Secrets are in the question, and so neither
in a command line nor in an environment. An agent that is started here leads a session of its own,
and has no end of the connection open: it goes on when that ends.

What belongs to an agent is in a folder of the user, named by its address: its keys, its output, who
it is, and the records of comparisons that it has run.
"""

import fcntl
import hashlib
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from jissoku.errors import InputError, JissokuError
from jissoku.fleet.keys import ListenAddress
from jissoku.fleet.load_wire import Echo
from jissoku.fleet.path import PathSeen, probe
from jissoku.measure.machine import HealthCheck, State, boot, machine, run_health_checks
from jissoku.model import Machine
from jissoku.records import files
from jissoku.system.processes import PROC, read_stat, start_ticks
from jissoku.system.program import PROGRAM

COMMAND = (*PROGRAM, "agent")

PORT_FIRST = 7470

# How long a new agent may take until it listens: it imports the laboratory, on any machine.
START_LIMIT_S, LOOK_S = 60.0, 0.05

# How long one may take to end: a comparison that it runs ends its trial first.
STOP_LIMIT_S = 100.0

AGENT_FILE, LOG_FILE, KEYS, CAMPAIGNS = "agent.json", "agent.log", "keys", "campaigns"


class Look(msgspec.Struct, frozen=True, kw_only=True, tag="look"):
    """What kind of host it is, and this many ports at which nothing listens."""

    ports: int


class StartAgent(msgspec.Struct, frozen=True, kw_only=True, tag="start"):
    """An agent to start, unless it runs already. `keys` are files, by their names.

    `version` is that of the agent: one that runs has that of its start.
    """

    version: str
    address: str
    keys: dict[str, str]
    options: tuple[str, ...]


class StopAgent(msgspec.Struct, frozen=True, kw_only=True, tag="stop"):
    address: str


class Examine(msgspec.Struct, frozen=True, kw_only=True, tag="examine"):
    """What disturbs measurements there, and the paths to other agents, at these addresses."""

    addresses: tuple[str, ...]


Question = Look | StartAgent | StopAgent | Examine


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    question: Question


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """`result` is empty where `failure` is not; `is_input` is the kind of that."""

    version: str
    result: msgspec.Raw = msgspec.Raw(b"{}")
    failure: str = ""
    is_input: bool = False


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """`address` is that at which ssh has reached the host."""

    machine: Machine
    address: str
    ports: tuple[int, ...]


class StartedAgent(msgspec.Struct, frozen=True, kw_only=True):
    pid: int
    is_new: bool
    log: str


class StoppedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """`pid` None: none ran. `campaigns` have their records in `folder`."""

    pid: int | None
    campaigns: int
    folder: str


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """`checks` that are not fine; `paths` by address; `boot` is that of the host."""

    checks: tuple[HealthCheck, ...]
    paths: dict[str, PathSeen]
    boot: str


class KnownAgent(msgspec.Struct, frozen=True, kw_only=True):
    """Who an agent is: a number alone may belong to another process by now."""

    pid: int
    start_ticks: int
    boot: str
    asked_sha256: str

    def runs(self) -> bool:
        with suppress(OSError):
            stat = read_stat(PROC / str(self.pid))
            is_same = (self.boot, self.start_ticks) == (boot(), stat.start_ticks)
            return is_same and not stat.has_exited
        return False


def answered(raw: bytes, version: str) -> bytes:
    """The answer to a question; nothing is done if it comes from another version."""
    asked_version = msgspec.json.decode(raw, type=_Versioned).version
    if asked_version != version:
        return msgspec.json.encode(Answered(version=version))
    try:
        question = msgspec.json.decode(raw, type=Asked).question
        result = msgspec.json.encode(ANSWERS[type(question)](question))
        return msgspec.json.encode(Answered(version=version, result=msgspec.Raw(result)))
    except (JissokuError, OSError, msgspec.MsgspecError) as error:
        return msgspec.json.encode(
            Answered(version=version, failure=str(error), is_input=isinstance(error, InputError))
        )


class _Versioned(msgspec.Struct, frozen=True):
    version: str = ""


def _look(asked: Look) -> Looked:
    # CLIENT PORT SERVER PORT, as in ssh(1).
    words = os.environ.get("SSH_CONNECTION", "").split()
    if len(words) != 4:
        raise InputError("ssh does not say at which address this host is reached (SSH_CONNECTION)")
    free = (port for port in range(PORT_FIRST, 1 << 16) if _is_free(words[2], port))
    ports = tuple(port for port, _ in zip(free, range(asked.ports), strict=False))
    return Looked(machine=machine(), address=words[2], ports=ports)


def _is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with suppress(OSError), socket.create_server((host, port), family=family):
        return True
    return False


def agent_folder(address: str) -> Path:
    """The folder of the agent at an address (XDG base directory specification)."""
    base = os.environ.get("XDG_STATE_HOME", "")
    home = Path(base) if Path(base).is_absolute() else Path("~/.local/state").expanduser()
    return home / "jissoku" / "agents" / ListenAddress.parse(address, "address").text


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Nothing else starts or ends this agent meanwhile."""
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (place / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _known(place: Path) -> KnownAgent | None:
    """The agent that was started in a folder, if it runs."""
    with suppress(OSError, msgspec.MsgspecError):
        found = msgspec.json.decode((place / AGENT_FILE).read_bytes(), type=KnownAgent)
        return found if found.runs() else None
    return None


def _start(asked: StartAgent) -> StartedAgent:
    place = agent_folder(asked.address)
    log = place / LOG_FILE
    digest = hashlib.sha256(msgspec.json.encode(asked, order="sorted")).hexdigest()
    with _alone(place):
        known = _known(place)
        if known is not None:
            if known.asked_sha256 != digest:
                raise InputError(
                    f"its agent (process {known.pid}) has another version, other keys or other"
                    " options: `jissoku fleet down` ends it"
                )
            return StartedAgent(pid=known.pid, is_new=False, log=str(log))
        _write_keys(place / KEYS, asked.keys)
        process, position = _started(asked, place, log)
        agent = KnownAgent(
            pid=process.pid,
            start_ticks=start_ticks(process.pid),
            boot=boot(),
            asked_sha256=digest,
        )
        files.replace_synced(place / AGENT_FILE, msgspec.json.encode(agent))
        _wait_until_it_listens(process, log, position)
    return StartedAgent(pid=process.pid, is_new=True, log=str(log))


def _write_keys(folder: Path, keys: Mapping[str, str]) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    for name, text in keys.items():
        if not name.replace(".", "", 1).isalpha():
            raise InputError(f"{name!r} is no name of a file")
        (folder / name).unlink(missing_ok=True)
        descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)


def _started(asked: StartAgent, place: Path, log: Path) -> tuple["subprocess.Popen[bytes]", int]:
    """The process, and where in the log its output begins."""
    words = ["--listen", asked.address, "--keys", str(place / KEYS)]
    words += ["--campaigns", str(place / CAMPAIGNS), *asked.options]
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "ab") as file:
        position = os.fstat(descriptor).st_size
        process = subprocess.Popen(
            [*COMMAND, *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return process, position


def _wait_until_it_listens(process: "subprocess.Popen[bytes]", log: Path, position: int) -> None:
    """JissokuError with what it has printed if it ends before, or takes too long."""
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        code = process.poll()
        said = log.read_bytes()[position:]
        if b"Listening on " in said:
            return
        if code is not None or time.monotonic() > deadline:
            break
        time.sleep(LOOK_S)
    process.kill()
    process.wait()
    last = said.decode(errors="replace").strip().rpartition("\n")[2].removeprefix("jissoku: ")
    kind = InputError if code == 2 else JissokuError
    raise kind(last or f"its agent has not begun to listen within {START_LIMIT_S:g} s: {log}")


def _stop(asked: StopAgent) -> StoppedAgent:
    place = agent_folder(asked.address)
    if not place.is_dir():
        return StoppedAgent(pid=None, campaigns=0, folder=str(place))
    with _alone(place):
        known = _known(place)
        if known is not None:
            _end(known)
        (place / AGENT_FILE).unlink(missing_ok=True)
        for path in (place / KEYS).glob("*"):
            path.unlink()
    campaigns = sum(1 for _ in (place / CAMPAIGNS).glob("*/*"))
    pid = known.pid if known else None
    return StoppedAgent(pid=pid, campaigns=campaigns, folder=str(place))


def _end(agent: KnownAgent) -> None:
    """Ends it as Ctrl-C does; JissokuError if it takes too long."""
    with suppress(ProcessLookupError):
        # The descriptor is of one process; the number may be of another one a moment later.
        process = os.pidfd_open(agent.pid)
        try:
            if not agent.runs():
                return
            signal.pidfd_send_signal(process, signal.SIGTERM)
            if select.select([process], [], [], STOP_LIMIT_S)[0]:
                return
        finally:
            os.close(process)
        raise JissokuError(
            f"its agent (process {agent.pid}) has not ended within {STOP_LIMIT_S:g} s;"
            " `jissoku fleet down` again waits on"
        )


def _examine(asked: Examine) -> Examined:
    paths = {}
    for text in asked.addresses:
        address = ListenAddress.parse(text, "address")
        paths[text] = probe(Echo(host=address.host, port=address.port))
    checks = tuple(check for check in run_health_checks() if check.state is not State.FINE)
    return Examined(checks=checks, paths=paths, boot=boot())


ANSWERS: dict[type, Any] = {Look: _look, StartAgent: _start, StopAgent: _stop, Examine: _examine}
