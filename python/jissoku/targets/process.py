"""Starts a target on given cores, detects its exit, and cleans up after it."""

import os
import random
import re
import resource
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic_ns
from typing import IO

from jissoku.errors import TargetError
from jissoku.model import Origin, StartCommand, Transport
from jissoku.system.address import HOST, Address, free_port, listener_pid, listener_pids
from jissoku.system.background import on_cores
from jissoku.system.process_session import ProcessSession
from jissoku.system.processes import start_ticks
from jissoku.targets.placeholders import Values, fill, fill_text, search_path
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.supervisor import supervisor

VMSTAT = Path("/proc/vmstat")


def oom_kills() -> int | None:
    """Processes that the OOM killer has killed since boot; None where the kernel does not count."""
    with suppress(OSError):
        if found := re.search(r"^oom_kill (\d+)$", VMSTAT.read_text(), re.MULTILINE):
            return int(found[1])
    return None


def oom_cause(number: int, kills_before: int | None) -> str:
    """A remark to the signal that ended a process; empty if no OOM kill can be the reason."""
    now = oom_kills()
    if number != signal.SIGKILL or kills_before is None or now is None or now <= kills_before:
        return ""
    return " (out of memory: the kernel's OOM killer ran meanwhile)"


# The address of everything on the stack moves with the size of the environment, and speed with it
# (Mytkowicz et al., ASPLOS 2009), so each start draws its own.
PADDING_BYTES_MAX = 4095

# The variables of our environment that a target started from a recipe inherits.
INHERITED = ("HOME", "LANG", "TMPDIR", "USER")

# Options of `jissoku serve` as environment variables: those of the user's shell are meant for the
# user's servers. A command given to the lab can set its own.
OWN_OPTIONS = "JISSOKU_"

# Environment variable that all processes of a start share, and no others have.
MARK = "JISSOKU_TARGET"

# Enough for every connection of a trial; Python's select() and old daemons fail with larger limits.
FILES_OPEN_MAX = 65_536

# Bytes kept of the end of a target's output.
TAIL_BYTES = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOptions:
    """`port` None is a Unix socket; the seed decides the size of the environment's padding.

    `host` is the address to listen on.
    """

    port: int | None
    cores: tuple[int, ...]
    workers: int
    seed: int
    upstreams: tuple[Address, ...] = ()
    host: str = HOST


@dataclass(frozen=True, slots=True)
class _Child:
    """A process that we started, and the machine's count of OOM kills before it."""

    process: subprocess.Popen[bytes]
    session: ProcessSession
    output: IO[bytes]
    folder: Path
    oom_kills: int | None


@dataclass(eq=False)
class RunningTarget(AbstractContextManager["RunningTarget"]):
    """A target that was started, or one that runs elsewhere, for a URL: without a child.

    `behind` is the server that was started for a reverse proxy. It is stopped with the proxy, and
    not measured. `_user_upstreams` are such servers that the user runs.
    """

    name: str
    address: Address
    _child: _Child | None = None
    behind: "RunningTarget | None" = None
    _user_upstreams: tuple[Address, ...] = ()
    _stopped: bool = False
    _last_output: str = ""

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        return self._child.process.pid if self._child else None

    @property
    def root(self) -> int | None:
        """The first process; of a URL's server on this machine, the one that listens."""
        return self.pid or listener_pid(self.address)

    def upstream_pids(self) -> list[int]:
        """First processes of the servers it forwards to, which are not measured.

        Those that a user runs are looked up anew: they may have been restarted.
        """
        pids = [pid for address in self._user_upstreams for pid in listener_pids(address)]
        if self.behind is not None and self.behind.pid is not None:
            pids.append(self.behind.pid)
        return pids

    def is_alive(self) -> bool:
        return self._child is None or self._child.process.poll() is None

    def is_alive_after(self, limit_s: float) -> bool:
        """As `is_alive`, after waiting: connections end some time before their process."""
        if self._child is None:
            return True
        try:
            self._child.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return True
        return False

    def exit_description(self) -> str:
        """How its first process ended, as the end of a sentence; empty while it runs."""
        if self._child is None or (code := self._child.process.poll()) is None:
            return ""
        if code < 0:
            cause = oom_cause(-code, self._child.oom_kills)
            return f"was killed by {signal.Signals(-code).name}{cause}"
        background = " (it must stay in the foreground)" if code == 0 else ""
        return f"exited with code {code}{background}"

    def output_tail(self) -> str:
        if self._child is None or self._child.output.closed:
            return self._last_output
        start = max(0, self.output_bytes() - TAIL_BYTES)
        # Not by seeking: the target writes at the same offset.
        return os.pread(self._child.output.fileno(), TAIL_BYTES, start).decode(errors="replace")

    def error(self, message: str, kind: type[TargetError] = TargetError) -> TargetError:
        """An error with the end of its output."""
        return kind(message, stderr=self.output_tail())

    def output_bytes(self) -> int:
        """How many bytes it wrote until it was stopped; a log line per request would show here."""
        if self._child is None or self._child.output.closed:
            return 0
        return os.fstat(self._child.output.fileno()).st_size

    def stop(self) -> bool:
        """Ends all its processes, removes its folder, and returns whether it ended on SIGTERM."""
        if self._child is None or self._stopped:
            return True
        self._stopped = True
        try:
            if self.behind is not None:
                self.behind.stop()
            asked = self._child.session.end()
            self._child.process.wait()
            supervisor().unwatch(self._child.session.mark)
        except TimeoutError as error:
            raise self.error(f"{self.name}: {error}") from error
        finally:
            self._last_output = self.output_tail()
            self._child.output.close()
            shutil.rmtree(self._child.folder, ignore_errors=True)
        return asked


def start(prepared: PreparedTarget, placement: LaunchOptions) -> RunningTarget:
    """Starts a target as the leader of a new session, on the given cores; a URL is not started.

    TargetError: nothing is left of the attempt.
    """
    if prepared.address is not None:
        return RunningTarget(prepared.name, prepared.address)
    behind = None
    if prepared.behind is not None and not placement.upstreams:
        rng = random.Random(placement.seed)
        taken = () if placement.port is None else (placement.port,)
        port = None if prepared.upstream is Transport.UNIX else free_port(rng, taken)
        own = replace(placement, port=port, seed=rng.getrandbits(31), host=HOST)
        behind = start(prepared.behind, own)
        placement = replace(placement, upstreams=(behind.address,))
    try:
        return _start(prepared, placement, behind)
    except TargetError:
        if behind is not None:
            behind.stop()
        raise


def _start(
    prepared: PreparedTarget, placement: LaunchOptions, behind: RunningTarget | None
) -> RunningTarget:
    assert prepared.start is not None, "only a URL has no command"
    words = prepared.listen.unix if placement.port is None else prepared.listen.tcp
    if not words:
        kind = "a Unix socket" if placement.port is None else "a TCP port"
        raise TargetError(f"{prepared.name} cannot listen on {kind}")
    if placement.port is not None and prepared.origin is not Origin.COMMAND:
        words = _at_host(prepared.name, words, placement.host)
    try:
        folder = Path(tempfile.mkdtemp(prefix="jissoku-"))
    except OSError as error:
        raise TargetError(f"{prepared.name} cannot be started: {error.strerror}") from error
    socket = "" if placement.port is not None else str(folder / "socket")
    is_tls = prepared.is_tls and not socket
    host = HOST if socket else placement.host
    address = Address(host=host, port=placement.port or 0, socket=socket, is_tls=is_tls)
    values: Values = prepared.values | {
        "run": str(folder),
        "workers": str(placement.workers),
        "mask": mask(placement.cores),
        "port": str(address.port),
        "socket": socket,
        "listen": words,
        "upstreams": _upstreams(prepared, placement.upstreams),
    }
    try:
        for config in prepared.config:
            path = folder / config.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fill_text(config.text, values), encoding="utf-8")
        child = _spawn(prepared, prepared.start, placement, values, address)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        what = error.filename or prepared.start.command[0]
        message = f"{prepared.name} cannot be started: {what}: {error.strerror}"
        raise TargetError(message) from error
    return RunningTarget(prepared.name, address, child, behind, prepared.user_upstreams)


def _at_host(name: str, words: tuple[str, ...], host: str) -> tuple[str, ...]:
    """The words of a recipe that say where to listen, for another address than 127.0.0.1.

    One of version 6 is in brackets before a port (RFC 3986 section 3.2.2). A command says itself
    where it listens, and has no such words.
    """
    bracketed = f"[{host}]" if ":" in host else host
    found = tuple(word.replace(f"{HOST}:", f"{bracketed}:").replace(HOST, host) for word in words)
    if host != HOST and found == words:
        raise TargetError(f"{name} listens on {HOST} only, so no load can come from another host")
    return found


def _upstreams(prepared: PreparedTarget, servers: Iterable[Address]) -> str:
    words = []
    for index, one in enumerate(servers):
        assert prepared.forward is not None, "only a reverse proxy has upstream servers"
        text = prepared.forward.unix if one.socket else prepared.forward.tcp
        if not text:
            raise TargetError(f"{prepared.name} cannot forward to a Unix socket")
        values: Values = {"upstream_port": str(one.port), "upstream_socket": one.socket}
        words.append(fill_text(text, values | {"upstream_index": str(index)}))
    return "\n".join(words)


def mask(cores: Iterable[int]) -> str:
    """Cores as a binary number, whose last digit is core 0."""
    return f"{sum(1 << core for core in set(cores)):b}"


def _spawn(
    prepared: PreparedTarget,
    start: StartCommand,
    placement: LaunchOptions,
    values: Values,
    address: Address,
) -> _Child:
    folder = Path(str(values["run"]))
    mark = f"{os.getpid()}-{monotonic_ns()}"
    entry = f"{MARK}={mark}".encode()
    padding = "x" * random.Random(placement.seed).randint(0, PADDING_BYTES_MAX)
    ours = {name: text for name, text in os.environ.items() if not name.startswith(OWN_OPTIONS)}
    if not prepared.inherits:
        ours = {name: ours[name] for name in INHERITED if name in ours} | {"PATH": search_path()}
    given = {key: fill_text(value, values) for key, value in start.environment.items()}
    environment = ours | given | {MARK: mark, "JISSOKU_PADDING": padding}
    kills_before = oom_kills()
    output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the target
    try:
        supervisor().announce(entry, address, folder)
        with _inherited(placement.cores):
            process = subprocess.Popen(
                fill(start.command, values),
                cwd=prepared.folder or folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
    except OSError:
        output.close()
        supervisor().unwatch(entry)
        raise
    session = ProcessSession(process.pid, entry, start_ticks(process.pid), address)
    supervisor().watch(session, folder)
    return _Child(process, session, output, folder, kills_before)


@contextmanager
def _inherited(cores: tuple[int, ...]) -> Iterator[None]:
    """Gives processes started meanwhile these cores and a higher limit of open files.

    The calling thread takes both on itself, since a child inherits them; a limit set on a child
    that runs already would come too late for its threads.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_OPEN_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_OPEN_MAX)
    with on_cores(cores):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
