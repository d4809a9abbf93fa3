"""Readiness by polling: a target is ready when it sends its first valid response."""

import http.client
import os
import select
import socket
from collections.abc import Callable
from time import monotonic_ns
from typing import Self

from jissoku.errors import TargetError
from jissoku.model import Workload
from jissoku.system.address import Address
from jissoku.targets import response
from jissoku.targets.process import RunningTarget
from jissoku.targets.response import TargetResponse, send_request

# From a process's start to its first successful answer; interpreters on a slow core take seconds.
READY_LIMIT_NS = 15_000_000_000

# Limit of a single attempt.
REQUEST_LIMIT_S = 2.0

# How long a server that another process started may refuse connections: long enough for a restart.
REFUSED_LIMIT_NS = 1_000_000_000

# Errors of an address at which no server listens.
REFUSED = (ConnectionRefusedError, FileNotFoundError, socket.gaierror)

# Pause between two attempts, which grows from the first to the second value.
BACKOFF_NS = 500_000
BACKOFF_NS_MAX = 10_000_000


def wait_until_ready(
    running: RunningTarget,
    workload: Workload,
    limit_ns: int = READY_LIMIT_NS,
    give_up: Callable[[], bool] = lambda: False,
) -> TargetResponse:
    """Polls a target until it answers successfully, and returns that answer.

    A gateway may answer 200 without the server behind it, and all answers are compared with the
    first one: so that server has to listen first. Between two attempts we wait for the end of its
    process, so an exit is noticed immediately.

    Args:
        running: The target.
        workload: Gives method, path, fields and body of the request.
        limit_ns: How long it may take, in nanoseconds.
        give_up: Called before each attempt; True ends the wait.

    Raises:
        TargetError: It exited, gave no successful answer in time, or was given up; the message
            describes the last attempt. Of an external server also: it refuses connections.
    """
    start = monotonic_ns()
    deadline = start + limit_ns
    if running.behind is not None:
        wait_for_listener(running.behind, limit_ns, give_up)
    backoff = BACKOFF_NS
    last = "nothing came"
    with _ExitWatch(running.pid) as death:
        while (rest := deadline - monotonic_ns()) > 0:
            if give_up():
                raise TargetError(f"waiting for {running.name} was given up: {last}")
            try:
                answer = send_request(running.address, workload, min(REQUEST_LIMIT_S, rest / 1e9))
            except (OSError, http.client.HTTPException) as error:
                last = _error_text(error)
                is_refused = running.pid is None and isinstance(error, REFUSED)
                if is_refused and monotonic_ns() >= start + REFUSED_LIMIT_NS:
                    raise _unreachable(running.name, running.address, error) from error
            else:
                if answer.is_success and running.is_alive():
                    return answer
                last = f"it answers {answer.status} {answer.reason}".rstrip()
            death.wait(backoff)
            backoff = min(2 * backoff, BACKOFF_NS_MAX)
            if not running.is_alive():
                raise TargetError(
                    f"{running.name} {running.exit_description()} before it answered",
                    stderr=running.output_tail(),
                )
    raise TargetError(
        f"{running.name} gave no good answer to {workload.method} {workload.path} within "
        f"{limit_ns / 1e9:g} s: {last}",
        stderr=running.output_tail(),
    )


def require_reachable(name: str, address: Address) -> None:
    """Connects once to a server that another process started, which may give any answer.

    Raises:
        TargetError: There was no connection.
    """
    try:
        address.connect(response.REQUEST_LIMIT_S).close()
    except OSError as error:
        raise _unreachable(name, address, error) from error


def _unreachable(name: str, address: Address, error: Exception) -> TargetError:
    return TargetError(
        f"{name} cannot be reached at {address.url()}: {_error_text(error)}; start it first"
    )


def wait_for_listener(
    running: RunningTarget,
    limit_ns: int = READY_LIMIT_NS,
    give_up: Callable[[], bool] = lambda: False,
) -> None:
    """Waits until a target accepts connections, without sending a request.

    Raises:
        TargetError: It exited, accepted no connection in time, or was given up.
    """
    deadline = monotonic_ns() + limit_ns
    backoff = BACKOFF_NS
    with _ExitWatch(running.pid) as death:
        while monotonic_ns() < deadline:
            if give_up():
                raise TargetError(f"waiting for {running.name} was given up")
            try:
                running.address.connect(REQUEST_LIMIT_S).close()
            except OSError:
                death.wait(backoff)
                backoff = min(2 * backoff, BACKOFF_NS_MAX)
            else:
                return
            if not running.is_alive():
                raise TargetError(
                    f"{running.name} {running.exit_description()} before it listened",
                    stderr=running.output_tail(),
                )
    raise TargetError(
        f"{running.name} took no connection within {limit_ns / 1e9:g} s",
        stderr=running.output_tail(),
    )


def _error_text(error: Exception) -> str:
    if isinstance(error, OSError):
        return (error.strerror or str(error) or type(error).__name__).lower()
    return f"the response is not HTTP ({type(error).__name__} {error})".rstrip()


class _ExitWatch:
    """Waits for the end of a process (pidfd_open(2))."""

    def __init__(self, pid: int | None) -> None:
        self._poll = select.poll()
        self._handle: int | None = None
        try:
            self._handle = None if pid is None else os.pidfd_open(pid)
        except ProcessLookupError:
            return
        if self._handle is not None:
            self._poll.register(self._handle, select.POLLIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            os.close(self._handle)

    def wait(self, limit_ns: int) -> None:
        """Waits for the process to end, up to a limit."""
        self._poll.poll(limit_ns / 1e6)
