"""Starts a target for a workload, polls its readiness, and verifies its first response.

Every stage of the lab that needs a running target gets it here.
"""

import http.client
import random
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from jissoku.errors import TargetError
from jissoku.model import Origin, Transport, Workload
from jissoku.system.address import Address, free_port
from jissoku.targets import contract, process, response
from jissoku.targets.prepare import PreparedTarget
from jissoku.targets.process import LaunchOptions, RunningTarget
from jissoku.targets.ready import wait_until_ready
from jissoku.targets.response import ExpectedResponse, TargetResponse


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """Starts targets.

    Attributes:
        cores: The only cores they may run on.
        rng: Draws ports, and the padding of each start's environment.
        workers: Number of workers of each target; None: one for each core.
        give_up: Called while waiting for a target; True ends the wait.
        upstreams: The servers that a reverse proxy forwards to; none: its recipe's own is started.
    """

    cores: tuple[int, ...]
    rng: random.Random
    workers: int | None = None
    give_up: Callable[[], bool] = _never
    upstreams: tuple[Address, ...] = ()

    def start(
        self, prepared: PreparedTarget, workload: Workload, promised: Container[int] = ()
    ) -> RunningTarget:
        """Starts a target on the workload's transport; it may not listen yet when this returns.

        Args:
            prepared: The target; one that another process started is not started again.
            workload: Its transport matters; a target without TCP gets a Unix socket.
            promised: Ports of targets that were started and may not listen yet.

        Raises:
            TargetError: It cannot be started there; nothing is left of the attempt.
        """
        on_unix = workload.transport is Transport.UNIX or not prepared.listen.tcp
        options = LaunchOptions(
            port=None if on_unix else free_port(self.rng, promised),
            cores=self.cores,
            workers=len(self.cores) if self.workers is None else self.workers,
            seed=self.rng.getrandbits(31),
            upstreams=self.upstreams,
        )
        return process.start(prepared, options)

    @contextmanager
    def ready(self, prepared: PreparedTarget, workload: Workload) -> Iterator[RunningTarget]:
        """Starts a target and waits until it answers with success; stops it when left.

        Raises:
            TargetError: It cannot be started, or gives no successful answer in time.
        """
        with self.start(prepared, workload) as running:
            wait_until_ready(running, workload, give_up=self.give_up)
            yield running

    @contextmanager
    def verified(self, prepared: PreparedTarget, workload: Workload) -> Iterator[RunningTarget]:
        """As `ready`, with its answers verified.

        Raises:
            TargetError: As `ready`, or an answer is not the right one.
        """
        with self.start(prepared, workload) as running:
            first = wait_until_ready(running, workload, give_up=self.give_up)
            verify(running, workload, first, expected_response(prepared, workload, first))
            yield running


def expected_response(
    prepared: PreparedTarget, workload: Workload, first: TargetResponse
) -> ExpectedResponse:
    """The expected answer: the contract's for a recipe, else the target's first one.

    Raises:
        TargetError: The contract has none, and the status of the first answer is not a success.
    """
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
    """Compares a target's first answer, and one to each of its requests, with the expected answer.

    Raises:
        TargetError: An answer differs, or is missing; the message is the end of a sentence, and
            `stderr` has the target's output.
    """
    try:
        response.check_response(first, expected)
        for index in range(max(1, len(workload.raw_requests))):
            again = response.send_request(running.address, workload, index=index)
            response.check_response(again, expected)
    except TargetError as error:
        raise TargetError(str(error), stderr=running.output_tail()) from error
    except (OSError, http.client.HTTPException) as error:
        message = f"answered once, and not a second time: {error}"
        raise TargetError(message, stderr=running.output_tail()) from error
