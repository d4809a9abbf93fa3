"""strace(1) attached to all threads of running processes.

Tracing slows a process by a factor, so nothing is timed meanwhile. Its output is a table
of counts, or calls with their thread, text and result.
"""

import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns

from jissoku.errors import JissokuError
from jissoku.system.processes import read_living, tasks

# Options: a table of counts by name, or a line for each call with the paths of its descriptors.
COUNTS = ("-c",)
CALLS = ("-y", "-a", "1", "-s", "48")

ATTACH_LIMIT_NS = 10_000_000_000
DETACH_LIMIT_S = 10.0
POLL_MS = 5

MISSING = "strace is not installed"
INSTALL = "sudo apt-get install strace"


class StraceError(JissokuError):
    """Tracing is impossible; the message gives the reason, and `hint` how to enable it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(slots=True)
class StraceText:
    """The output of strace; empty until it has detached from the processes."""

    text: str = ""


def missing_reason() -> str:
    """Why tracing is impossible here; empty if no reason is known beforehand."""
    if shutil.which("strace"):
        return ""
    return f"{MISSING}, so no system call was counted: {INSTALL}"


@contextmanager
def traced(pids: Iterable[int], options: Sequence[str]) -> Iterator[StraceText]:
    """Traces some processes, all their threads, and processes that they start meanwhile.

    `options` are `COUNTS` or `CALLS`. StraceError: strace is missing, or may not attach.
    """
    program = shutil.which("strace")
    if program is None:
        raise StraceError(MISSING, INSTALL)
    pids = sorted(pids)
    found = StraceText()
    with tempfile.TemporaryDirectory(prefix="jissoku-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "strace"
        attach = [word for pid in pids for word in ("-p", str(pid))]
        # Quiet, since its messages about attached processes are not needed.
        with subprocess.Popen(
            [program, "-f", "-q", *options, "-o", str(path), *attach],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as tracer:
            try:
                _wait_attached(tracer, pids)
                yield found
            finally:
                tracer.send_signal(signal.SIGINT)
                try:
                    tracer.communicate(timeout=DETACH_LIMIT_S)
                except subprocess.TimeoutExpired:
                    tracer.kill()
        found.text = path.read_text(errors="replace") if path.exists() else ""


def _wait_attached(tracer: subprocess.Popen[bytes], pids: Sequence[int]) -> None:
    deadline = monotonic_ns() + ATTACH_LIMIT_NS
    assert tracer.stderr is not None, "it is a pipe"
    ends = select.poll()
    handle = os.pidfd_open(tracer.pid)
    try:
        ends.register(handle, select.POLLIN)
        while not _is_attached(tracer.pid, pids):
            if ends.poll(POLL_MS):
                lines = tracer.stderr.read().decode(errors="replace").strip().splitlines()
                raise StraceError(
                    f"strace cannot attach: {lines[-1] if lines else 'it ended'}",
                    "run as the target's user or root, with kernel.yama.ptrace_scope=0",
                )
            if monotonic_ns() > deadline:
                raise StraceError("strace did not attach in time", "run it again")
    finally:
        os.close(handle)


def _is_attached(tracer: int, pids: Sequence[int]) -> bool:
    found = read_living(tasks(pids), lambda task: (task / "status").read_text())
    return all(f"\nTracerPid:\t{tracer}\n" in text for _, text in found)


# A row of `strace -c`: % time, seconds, usecs/call, calls, errors (or nothing), name.
ROW = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?([a-z_]\w*)$")

# strace fills process ids up to five characters.
WHOLE = re.compile(r"(\d+) +(\w+)\((.*)\) += (\S+)(.*)")
BEGUN = re.compile(r"(\d+) +(\w+)\((.*) <unfinished \.\.\.>")
RESUMED = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>(.*)")
PATH = re.compile(r'"((?:[^"\\]|\\.)*)"')
DESCRIPTOR = re.compile(r"-?\d+<(.*?)>")

WAITS = frozenset(
    ["epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6"]
)
ACCEPTS = frozenset(["accept", "accept4"])
OPENS = frozenset(["open", "openat", "openat2", "creat"])
PATH_QUERIES = frozenset(
    ["stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2", "readlink"]
)
WRITES = frozenset(["write", "writev", "pwrite64", "pwritev", "pwritev2"])


@dataclass(frozen=True, slots=True)
class Call:
    """One system call that ended; `text` is that between the parentheses."""

    thread: int
    name: str
    text: str
    result: str
    error: str

    @property
    def is_eagain(self) -> bool:
        """Whether it failed with EAGAIN, where it would have had to wait."""
        return self.error.lstrip().startswith("EAGAIN")

    @property
    def has_failed(self) -> bool:
        return self.result.startswith("-")


def counts_by_name(table: str) -> dict[str, int]:
    rows = (ROW.match(line) for line in table.splitlines())
    return {row[2]: int(row[1]) for row in rows if row and row[2] != "total"}


def calls(lines: Iterable[str]) -> Iterator[Call]:
    """The calls in the order of their ends; calls split over two lines are joined."""
    begun: dict[tuple[str, str], str] = {}
    for line in lines:
        if unfinished := BEGUN.match(line):
            thread, name, text = unfinished.groups()
            begun[thread, name] = text
            continue
        if resumed := RESUMED.match(line):
            thread, name, rest = resumed.groups()
            line = f"{thread} {name}({begun.pop((thread, name), '')}{rest}"  # noqa: PLW2901
        if found := WHOLE.match(line):
            thread, name, text, result, error = found.groups()
            yield Call(int(thread), name, text, result, error)


def counts(found: Iterable[Call]) -> tuple[Counter[str], Counter[str]]:
    """Number of calls by name, and of those that failed with EAGAIN."""
    everything: Counter[str] = Counter()
    again: Counter[str] = Counter()
    for call in found:
        everything[call.name] += 1
        again[call.name] += call.is_eagain
    return everything, +again


def paths(found: Iterable[Call], names: frozenset[str]) -> Counter[str]:
    """Paths of successful calls of some names, with their numbers."""
    return Counter(
        path[1]
        for call in found
        if call.name in names and not call.has_failed and (path := PATH.search(call.text))
        if path[1]
    )


def written(found: Iterable[Call]) -> Counter[str]:
    """Number of writes by path; without sockets, pipes and files of the kernel."""
    names = (_descriptor(call.text) for call in found if call.name in WRITES)
    return Counter(name for name in names if name.startswith("/"))


def empty_waits(found: Iterable[Call]) -> int:
    """Number of waits that returned no event, with or without a timeout."""
    return sum(call.name in WAITS and call.result == "0" for call in found)


def spurious_wakeups(found: Iterable[Call]) -> int:
    """Number of wake-ups after which a thread did nothing but an accept that failed with EAGAIN.

    A server that waits for its database and then looks for the next connection was not woken for
    one.
    """
    count = 0
    is_fresh: dict[int, bool] = {}
    for call in found:
        if call.name in WAITS:
            is_fresh[call.thread] = not call.has_failed and call.result != "0"
        elif call.name in ACCEPTS:
            count += call.is_eagain and is_fresh.get(call.thread, False)
            is_fresh[call.thread] = False
        elif call.name in RECEIVES:
            is_fresh[call.thread] = False
    return count


# How strace writes the address that a connect(2) is for.
INTERNET = re.compile(r'sin6?_port=htons\((\d+)\).*?(?:inet_addr\(|inet_pton\(AF_INET6, )"([^"]+)"')
UNIX = re.compile(r'sun_path=@?"([^"]+)"')
NAME_SERVICE_PORT = "53"
HOSTS = "/etc/hosts"

SENDS = frozenset(["sendto", "sendmsg", "write", "writev"])
RECEIVES = frozenset(["recvfrom", "recvmsg", "read", "readv", "recv"])
SYNCS = frozenset(["fsync", "fdatasync", "sync_file_range", "msync"])

# SQLite takes a shared lock for each transaction: on bytes of the database, after one on the
# pending byte, or on the database's shared-memory file (sqlite.org/lockingv3.html, walformat.html).
PENDING_BYTE = "l_start=1073741824"
BESIDE_DATABASE = re.compile(r"-(shm|wal|journal)$")


@dataclass(frozen=True, slots=True)
class Connects:
    """Connections that the traced processes opened themselves, completed or not.

    `streams` are numbers by address, empty if the trace did not show it; `sockets` addresses by
    socket; `name_queries` sockets connected to the port of a name service.
    """

    streams: Counter[str]
    name_queries: int
    sockets: dict[str, str]


def connects(found: Iterable[Call]) -> Connects:
    streams: Counter[str] = Counter()
    sockets: dict[str, str] = {}
    datagrams: set[str] = set()
    queries = 0
    for call in found:
        if call.name == "socket":
            name = _descriptor(call.result)
            (datagrams.add if "SOCK_DGRAM" in call.text else datagrams.discard)(name)
        elif call.name == "connect" and (not call.has_failed or "EINPROGRESS" in call.error):
            name, address = _descriptor(call.text), _address(call.text)
            if address.endswith(f":{NAME_SERVICE_PORT}"):
                queries += 1
            elif name not in datagrams:
                streams[address] += 1
                sockets[name] = address
    return Connects(streams, queries, sockets)


def round_trips(found: Iterable[Call]) -> Counter[str]:
    """Answers received by socket, on those on which the traced process is the one that asks."""
    asks: dict[str, bool] = {}
    has_sent: dict[str, bool] = {}
    trips: Counter[str] = Counter()
    for call in found:
        is_sent = call.name in SENDS
        if not (is_sent or call.name in RECEIVES) or call.has_failed or call.result == "0":
            continue
        name = _descriptor(call.text)
        if name.startswith("socket:"):
            # A socket that is new to us may have a new number: servers read first.
            asks.setdefault(name, is_sent)
            trips[name] += asks[name] and has_sent.get(name, False) and not is_sent
            has_sent[name] = is_sent
    return +trips


def transactions(found: Iterable[Call]) -> Counter[str]:
    """Number of transactions on databases in files, by path.

    The threads of a process share such a lock, so that not every transaction takes one; each looks
    at the size of the file.
    """
    locked: Counter[str] = Counter()
    sized: Counter[str] = Counter()
    for call in found:
        if call.name == "fcntl" and "SETLK" in call.text and "F_RDLCK" in call.text:
            locked[BESIDE_DATABASE.sub("", _descriptor(call.text))] += PENDING_BYTE not in call.text
        elif call.name == "fstat" or (call.name == "newfstatat" and ', "", ' in call.text):
            sized[_descriptor(call.text)] += 1
    return Counter({path: max(count, sized[path]) for path, count in locked.items() if count})


def synced(found: Iterable[Call]) -> Counter[str]:
    """Number of waits for a disk, by path."""
    return Counter(_descriptor(call.text) for call in found if call.name in SYNCS)


def _descriptor(text: str) -> str:
    named = DESCRIPTOR.match(text)
    return named[1] if named else ""


def _address(text: str) -> str:
    if internet := INTERNET.search(text):
        port, host = internet.groups()
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    path = UNIX.search(text)
    return path[1] if path else ""
