"""An agent that sends load, from the client's end."""

from collections.abc import Callable
from typing import ClassVar

from jissoku.fleet import wire
from jissoku.fleet.link import ANSWER_S, Link
from jissoku.fleet.load_wire import (
    Arm,
    Armed,
    Begin,
    ChooseLoadCores,
    DropLoad,
    Echo,
    EndLoad,
    LoadCores,
    LoadResult,
)
from jissoku.measure.loadgen import LoadSpec, Share, seconds_at_most
from jissoku.model import updated


class LoadAgent(Link):
    """Sends a share of each load."""

    at_its_end: ClassVar[str] = "the load of this trial is dropped"

    def choose_cores(self, server: str, given: str | None) -> LoadCores:
        """The cores of its load generator; InputError if it lacks these, or sends no load there."""
        return self.ask(ChooseLoadCores(server=server, given=given), LoadCores)

    def arm(self, spec: LoadSpec, share: Share, echo: Echo | None) -> Armed:
        """Starts a load generator there, which connects; nothing of the targets is watched."""
        plain = updated(
            spec,
            roots=(None,) * len(spec.urls),
            own_processes=(),
            warmup_requests={},
            warmup_rps={},
        )
        asked = Arm(spec=plain, share=share, echo=echo)
        return self.ask(asked, Armed, ANSWER_S + seconds_at_most(spec))

    def begin(self, start_ns: int) -> None:
        """`start_ns` is of the agent's clock."""
        self.ask(Begin(start_ns=start_ns), wire.Answer)

    def end(self, limit_s: float, give_up: Callable[[], bool]) -> LoadResult:
        """Waits for the load's end. While it is under way, no message is sent."""
        return self.ask(EndLoad(), LoadResult, limit_s + ANSWER_S, give_up)

    def drop(self) -> None:
        self.ask(DropLoad(), wire.Answer)
