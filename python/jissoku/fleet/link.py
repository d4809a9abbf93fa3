"""A session with an agent, from the client's end: questions one after the other, and its clock."""

import time
from collections.abc import Callable
from typing import ClassVar, TypeVar

import msgspec

from jissoku.errors import HostLost
from jissoku.fleet import wire
from jissoku.fleet.channel import Channel, ChannelClosed, GaveUp
from jissoku.fleet.clock import ClockBound, RoundTrip
from jissoku.fleet.keys import ListenAddress
from jissoku.measure.machine import boot
from jissoku.model import Machine

# The time of an answer, beside what the agent does meanwhile.
ANSWER_S = 30.0

# Round trips for one bound of the clock; the shortest counts.
ROUND_TRIPS = 32

Result = TypeVar("Result", bound=msgspec.Struct)


class Link:
    """Requests go one after the other; the first that fails ends the session.

    `at_its_end` is what an agent does that loses its client.
    """

    at_its_end: ClassVar[str]

    def __init__(self, address: ListenAddress, channel: Channel, welcome: wire.Welcome) -> None:
        """Takes over an open channel, after the agent's welcome."""
        self.address = address
        self._where = f"the agent on {address.text}"
        self._channel = channel
        self._welcome = welcome
        self._number = 0
        self._lost = ""

    @property
    def lost(self) -> str:
        """Why the session has ended; empty while it goes on."""
        return self._lost

    def machine(self) -> Machine:
        """The properties of the agent's host."""
        return self._welcome.machine

    @property
    def is_same_machine(self) -> bool:
        return bool(boot()) and boot() == self._welcome.boot

    def ask(
        self,
        request: wire.Request,
        kind: type[Result],
        limit_s: float = ANSWER_S,
        give_up: Callable[[], bool] | None = None,
    ) -> Result:
        """The agent's answer. HostLost: there is none, and there will be none.

        The error of the agent if it has failed or refused. GaveUp when `give_up` returns True,
        which ends the session.
        """
        if self._lost:
            raise HostLost(self._lost)
        self._number += 1
        numbered = wire.Numbered(number=self._number, request=request)
        try:
            self._channel.send(wire.encoded(numbered), ANSWER_S)
            reply = wire.decoded(self._channel.receive(limit_s, give_up), wire.Reply)
            result = None if reply.failure else wire.decoded(bytes(reply.result), kind)
        except (GaveUp, KeyboardInterrupt):
            self._lose("the session was given up")
            raise
        except ChannelClosed as error:
            raise self._lose(f"{error}, and {self.at_its_end}") from error
        except wire.WireError as error:
            raise self._lose(f"sends {error}") from error
        if reply.number != self._number:
            raise self._lose(f"answers request {reply.number} in place of {self._number}")
        if result is not None:
            return result
        raise wire.error_of(reply, self._where)

    def _lose(self, reason: str) -> HostLost:
        self._lost = f"{self._where} {reason}; its output on that host may say why"
        self._channel.close()
        return HostLost(self._lost)

    def clock(self) -> ClockBound:
        """How the agent's clock relates to ours now."""
        return ClockBound.of([self._round_trip() for _ in range(ROUND_TRIPS)])

    def _round_trip(self) -> RoundTrip:
        sent_ns = time.monotonic_ns()
        there = self.ask(wire.AskTime(), wire.TimeThere)
        return RoundTrip(sent_ns=sent_ns, there_ns=there.at_ns, received_ns=time.monotonic_ns())
