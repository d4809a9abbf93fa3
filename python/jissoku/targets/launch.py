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
        workers: How many each is to have; None: one for each core.
        give_up: Asked while a target is waited for; True ends the waiting.
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
        """Starts a target where the workload wants it to listen; it may not do so yet.

        Args:
            prepared: The target; one that another process started is not started again.
            workload: Its transport matters; a target without TCP gets a Unix socket.
            promised: Ports of targets that were started a moment ago and may not listen yet.

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
            TargetError: It cannot be started, or gives no good answer in time.
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
    """The right answer: of a recipe the contract's, else the first one that was given.

    Raises:
        TargetError: The first answer is no success, and the contract has none.
    """
    of_contract = None
    is_plain = workload.method == "GET" and not workload.headers
    if prepared.origin is Origin.RECIPE and is_plain:
        of_contract = contract.expected_response(workload.path)
    return of_contract or response.expect_first_response(first)


def verify(
    running: RunningTarget, workload: Workload, first: TargetResponse, expected: ExpectedResponse
) -> None:
    """Holds a target's first answer to the right one, and one more to each request it will get.

    Raises:
        TargetError: An answer is another one, or does not come; the message is the end of a
            sentence, and `stderr` is what the target wrote.
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
