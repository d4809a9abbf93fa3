"""Starts a target for a workload, polls its readiness, and verifies its first response.

Every stage of the lab that needs a running target gets it here. A target is ready when it sends its
first valid response.
"""

import http.client
import random
import socket
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from jissoku.errors import TargetEnded, TargetError
from jissoku.model import Origin, Transport, Workload
from jissoku.system.address import HOST, Address, free_port, listening_addresses
from jissoku.system.processes import cpu_time, process_tree
from jissoku.targets import contract, process, response
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.process import LaunchOptions, RunningTarget
from jissoku.targets.response import ExpectedResponse, TargetResponse, send_request

# From a process's start to its first successful answer; interpreters on a slow core take seconds.
READY_LIMIT_NS = 15_000_000_000

# Limit of a single attempt.
REQUEST_LIMIT_S = 2.0

# How long a server that another process started may refuse connections: long enough for a restart.
REFUSED_LIMIT_NS = 1_000_000_000

# After this a target that does not answer is spoken of; one that listens at another address and
# has computed next to nothing between two looks does not listen at its own any more.
SLOW_START_NS = 2_000_000_000
LOOK_NS = 1_000_000_000
IDLE_MAX = 0.05

# Errors of an address at which no server listens.
REFUSED = (ConnectionRefusedError, FileNotFoundError, socket.gaierror)

# How long a target may give the same wrong answer, unless that says that it, or a server behind it,
# is not ready yet (RFC 9110 sections 15.6.3 to 15.6.5).
WRONG_LIMIT_NS = 1_000_000_000
NOT_READY = {502, 503, 504}

# What to do about a wrong answer, by its status; of any other its first digit decides.
REMEDIES = {
    401: "send what it asks for, as in -H 'Authorization: ...'",
    403: "send what it asks for, as in -H 'Authorization: ...'",
    405: "choose a method that it allows, with -m",
    3: "name the path or the address that it redirects to",
    4: "choose a path that exists, with --path",
    5: "its log says why",
}

# Pause between two attempts, which grows from the first to the second value.
BACKOFF_S = 0.0005
BACKOFF_S_MAX = 0.01


def _attempts(running: RunningTarget, limit_ns: int, what: str) -> Iterator[float]:
    """Yields the seconds left for each attempt; TargetError if the target exits between two."""
    deadline = time.monotonic_ns() + limit_ns
    backoff_s = BACKOFF_S
    while (rest := deadline - time.monotonic_ns()) > 0:
        yield rest / 1e9
        if running.pid is None:
            time.sleep(backoff_s)
        elif not running.is_alive_after(backoff_s):
            ended = f"{running.name} {running.exit_description()} before it {what}"
            raise running.error(ended, TargetEnded)
        backoff_s = min(2 * backoff_s, BACKOFF_S_MAX)


def wait_until_ready(
    running: RunningTarget,
    workload: Workload,
    limit_ns: int = READY_LIMIT_NS,
    give_up: Callable[[], bool] = lambda: False,
    note: Callable[[str], object] = str,
) -> TargetResponse:
    """Polls a target until it answers successfully, and returns that answer.

    A gateway may answer 200 without the server behind it, and all answers are compared with the
    first one: so that server has to listen first. `give_up` is called before each attempt; True
    ends the wait. `note` receives a sentence when it gets long.

    TargetError: it exited, gave no good answer in time or the same wrong one for long, listens
    at another address, or was given up; the message describes the last attempt. Of an external
    server also: it refuses connections.
    """
    start = time.monotonic_ns()
    watch = _Watch(running, workload, start)
    if running.behind is not None:
        wait_for_listener(running.behind, give_up, limit_ns)
    last = "nothing came"
    for rest_s in _attempts(running, limit_ns, "answered"):
        if give_up():
            raise TargetError(f"waiting for {running.name} was given up: {last}")
        try:
            answer = send_request(running.address, workload, min(REQUEST_LIMIT_S, rest_s))
        except (OSError, http.client.HTTPException) as error:
            last = _error_text(error)
            if isinstance(error, REFUSED):
                watch.check_refusal(error)
        else:
            if answer.is_success and running.is_alive():
                return answer
            last = f"it answers {answer.status} {answer.reason}".rstrip()
            watch.check_answer(answer)
        if time.monotonic_ns() > start + SLOW_START_NS:
            note(f"Waiting for {running.name}, {limit_ns / 1e9:g} s at most: {last}.")
            note = str
    raise running.error(
        f"{running.name} gave no good answer to {workload.method} {workload.path} within "
        f"{limit_ns / 1e9:g} s: {last}"
    )


class ListensElsewhere(TargetError):  # noqa: N818 - the command is right, and given wrongly
    """A target that has started, and listens at another address than that of its command."""


class _Watch:
    """Ends the wait for a target that gives no good answer however long it is waited for."""

    def __init__(self, running: RunningTarget, workload: Workload, start_ns: int) -> None:
        self._running = running
        self._path = workload.path
        self._status, self._since_ns = 0, 0
        self._start_ns = start_ns
        self._next_ns = start_ns + SLOW_START_NS
        self._seen: tuple[tuple[str, ...], int] = ((), 0)

    def check_answer(self, answer: TargetResponse) -> None:
        """Raises TargetError if the same wrong status has come for long."""
        now_ns, status = time.monotonic_ns(), answer.status
        if status != self._status:
            self._status, self._since_ns = status, now_ns
        if status in NOT_READY or now_ns < self._since_ns + WRONG_LIMIT_NS:
            return
        url = self._running.address.url(self._path)
        remedy = REMEDIES.get(status) or REMEDIES.get(status // 100) or "it must answer with 2xx"
        said = f"{self._running.name}: {url} answers {status} {answer.reason}".rstrip()
        raise self._running.error(f"{said}; {remedy}")

    def check_refusal(self, error: Exception) -> None:
        """ListensElsewhere if two looks have found the same address, and little was done.

        Of an external server a TargetError if it has refused for long.
        """
        now, running, (before, used_ns) = time.monotonic_ns(), self._running, self._seen
        if running.pid is None and now >= self._start_ns + REFUSED_LIMIT_NS:
            raise _unreachable(running.name, running.address, error) from error
        if running.pid is None or now < self._next_ns:
            return
        pids = process_tree(running.root)
        found, used = listening_addresses(pids), sum(cpu_time(pids).run_ns.values())
        if found and found == before and used - used_ns < IDLE_MAX * LOOK_NS:
            here = running.address.socket or running.address.authority
            raise running.error(
                f"{running.name} listens on {' and '.join(found)}, and not on {here}:"
                f" {_listen_hint(running, found[0])}",
                ListensElsewhere,
            )
        self._seen, self._next_ns = (found, used), now + LOOK_NS


def _listen_hint(running: RunningTarget, found: str) -> str:
    """What to change in the command of a target that listens at the address `found`."""
    if running.address.host != HOST and not running.address.socket:
        return "let it listen on that address, from which another host sends the load"
    port = found.rpartition(":")[2]
    start = f"start it and name it --url {running.name}=http://127.0.0.1:{port}/"
    return f"let it listen on {{port}}, or {start}"


def wait_for_listener(
    running: RunningTarget, give_up: Callable[[], bool], limit_ns: int = READY_LIMIT_NS
) -> None:
    """As `wait_until_ready`, until it accepts connections; no request is sent."""
    for _ in _attempts(running, limit_ns, "listened"):
        if give_up():
            raise TargetError(f"waiting for {running.name} was given up")
        try:
            running.address.connect(REQUEST_LIMIT_S).close()
        except OSError:
            continue
        return
    raise running.error(f"{running.name} took no connection within {limit_ns / 1e9:g} s")


def require_reachable(name: str, address: Address) -> None:
    """Connects once to a server that another process started; TargetError if that fails."""
    try:
        address.connect(response.REQUEST_LIMIT_S).close()
    except OSError as error:
        raise _unreachable(name, address, error) from error


def _unreachable(name: str, address: Address, error: Exception) -> TargetError:
    return TargetError(
        f"{name} cannot be reached at {address.url()}: {_error_text(error)}; start it first"
    )


def _error_text(error: Exception) -> str:
    if isinstance(error, OSError):
        return (error.strerror or str(error) or type(error).__name__).lower()
    return f"the response is not HTTP ({type(error).__name__} {error})".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """`rng` draws ports and the padding of environments; by default each core has a worker.

    `note` receives a sentence when a target takes long to answer. A reverse proxy forwards to
    the `upstreams`; none: its recipe's own server is started. Targets listen on the address `host`.
    """

    cores: tuple[int, ...]
    rng: random.Random
    workers: int | None = None
    give_up: Callable[[], bool] = lambda: False
    note: Callable[[str], object] = str
    upstreams: tuple[Address, ...] = ()
    host: str = HOST

    def start(
        self, prepared: PreparedTarget, workload: Workload, promised: Container[int] = ()
    ) -> RunningTarget:
        """Starts a target on the workload's transport; it may not listen yet when this returns.

        `promised` are ports of others that may not listen yet. TargetError: it cannot be started
        there; nothing is left of the attempt.
        """
        on_unix = workload.transport is Transport.UNIX or not prepared.listen.tcp
        options = LaunchOptions(
            port=None if on_unix else free_port(self.rng, promised, self.host),
            cores=self.cores,
            workers=len(self.cores) if self.workers is None else self.workers,
            seed=self.rng.getrandbits(31),
            upstreams=self.upstreams,
            host=self.host,
        )
        return process.start(prepared, options)

    @contextmanager
    def ready(self, prepared: PreparedTarget, workload: Workload) -> Iterator[RunningTarget]:
        with self.start(prepared, workload) as running:
            wait_until_ready(running, workload, give_up=self.give_up, note=self.note)
            yield running

    @contextmanager
    def verified(self, prepared: PreparedTarget, workload: Workload) -> Iterator[RunningTarget]:
        """As `ready`, with its answers verified."""
        with self.start(prepared, workload) as running:
            first = wait_until_ready(running, workload, give_up=self.give_up, note=self.note)
            verify(running, workload, first, expected_response(prepared, workload, first))
            yield running


def expected_response(
    prepared: PreparedTarget, workload: Workload, first: TargetResponse
) -> ExpectedResponse:
    """The contract's for a recipe, else the target's first one, if that is a success."""
    if workload.websocket:
        return response.expect_echo(workload)
    of_contract = None
    is_plain = workload.method == "GET" and not workload.headers
    if prepared.origin is Origin.RECIPE and is_plain:
        of_contract = contract.expected_response(workload.path)
    return of_contract or response.expect_first_response(first)


def verify(
    running: RunningTarget, workload: Workload, first: TargetResponse, expected: ExpectedResponse
) -> None:
    """Compares a target's first answer, and one to each of its requests, with the expected one."""
    try:
        response.check_response(first, expected, workload.match)
        for index in range(max(1, len(workload.raw_requests))):
            again = response.send_request(running.address, workload, index=index)
            response.check_response(again, expected, workload.match)
    except TargetError as error:
        raise running.error(str(error)) from error
    except (OSError, http.client.HTTPException) as error:
        raise running.error(f"answered once, and not a second time: {error}") from error
