"""System calls by name, connections and segments of a server, per request.

Counted in separate trials: tracing slows a server by a factor, so nothing is timed here. The
requests are sent one at a time by a client of the lab, so their number is exact.
"""

import http.client
import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack

from jissoku.errors import TargetError
from jissoku.measure.probes.client import Client, ProbeError, RequestTarget
from jissoku.model import CounterReadings
from jissoku.system import strace
from jissoku.system.processes import process_tree
from jissoku.system.strace import StraceError, counts_by_name

REQUESTS = 400
CONNECTIONS = 4


def count_requests(root: int, target: RequestTarget) -> CounterReadings:
    """Sends some hundred requests to a running server, and counts its system calls meanwhile.

    Args:
        root: Its first process.

    Raises:
        ProbeError: A request was not answered.
    """
    # Work that is done once, such as opening a file for a cache, is not counted.
    _send_requests(target, CONNECTIONS)
    if reason := strace.missing_reason():
        return _readings(_send_requests(target, REQUESTS), {}, reason)
    pids = process_tree(root)
    if not pids:
        raise ProbeError("it ended before it was traced")
    try:
        with strace.traced(pids, strace.COUNTS) as found:
            received = _send_requests(target, REQUESTS)
    except StraceError as error:
        return _readings(_send_requests(target, REQUESTS), {}, str(error))
    syscalls = counts_by_name(found.text)
    reason = "" if syscalls else "strace counted no call: it was not permitted to trace"
    return _readings(received, syscalls, reason)


def _readings(received: Counter[str], syscalls: dict[str, int], reason: str) -> CounterReadings:
    # No answer has zero segments: this is a Unix socket, or the kernel provides no counters.
    names = ("connections", "segments", "bytes") if received["segments"] else ("connections",)
    per_request = {name: number / REQUESTS for name, number in sorted(syscalls.items())}
    per_request |= {name: received[name] / REQUESTS for name in names}
    return CounterReadings(requests=REQUESTS, per_request=per_request, syscalls_reason=reason)


def _send_requests(target: RequestTarget, requests: int) -> Counter[str]:
    """Sends requests in turn over a few connections, which stay open; the server may end them.

    Returns:
        Number of connections, and the TCP counters of the answers.
    """
    seen: Counter[str] = Counter()
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(target)) for _ in range(CONNECTIONS)]
        for index in range(requests):
            try:
                received = clients[index % CONNECTIONS].request_counted()
            except (OSError, http.client.HTTPException) as error:
                raise ProbeError(f"a request was not answered: {error}") from error
            seen["segments"] += received.segments
            seen["bytes"] += received.size
        seen["connections"] = sum(client.opened for client in clients)
    return seen


# Limit of one round: an experiment should end within minutes.
ROUND_LIMIT_S = 120.0

LINE = re.compile(r"^([a-z][a-z0-9_]*)[ \t:=]+([0-9.]+(?:e[+-]?[0-9]+)?)$")


def run_round(name: str, command: Sequence[str]) -> dict[str, float]:
    """Runs a benchmark once, and parses the values of its output.

    Raises:
        TargetError: It cannot be run, fails, takes too long, or prints no values.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ROUND_LIMIT_S,
            check=False,
        )
    except OSError as error:
        raise TargetError(f"{name}: {command[0]} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise TargetError(f"{name}: a round took longer than {ROUND_LIMIT_S:g} s") from error
    if done.returncode:
        raise TargetError(f"{name}: exited with code {done.returncode}", stderr=done.stderr)
    return parse_output(name, done.stdout)


def parse_output(name: str, text: str) -> dict[str, float]:
    """Parses lines of a name and a number.

    Raises:
        TargetError: A line is malformed, or there is none.
    """
    found: dict[str, float] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        read = LINE.match(line.strip())
        value = _number(read[2]) if read else 0.0
        if read is None or value <= 0:
            raise TargetError(
                f"{name}: {line.strip()[:60]!r} is not a result: print a name and a number above 0"
            )
        found[read[1]] = value
    if not found:
        raise TargetError(f"{name}: printed nothing; a line is a name and a number above 0")
    return found


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
