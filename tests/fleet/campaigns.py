"""Agents whose comparisons are records that there are, and a comparison over them."""

import math
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from jissoku.fleet.agent import Agent
from jissoku.fleet.campaign_agent import CampaignAgent
from jissoku.fleet.campaign_wire import CAMPAIGNS
from jissoku.fleet.campaigns import Campaigns
from jissoku.fleet.connecting import session
from jissoku.fleet.keys import AGENT, CLIENT, ListenAddress, read_keys
from jissoku.fleet.machines import MachinesPlan, measure_machines, new_plan
from jissoku.fleet.permissions import Permissions
from jissoku.records import RunWriter
from jissoku.request import ComparisonRequest
from jissoku.targets import catalogue
from tests.fleet.conftest import VERSION
from tests.inference import factories

REPLAY = Path(__file__).with_name("replay.py")
ARMS = ("a", "b")

# Of an agent that has recipes of these names.
PERMISSIONS = Permissions(recipes=dict.fromkeys(ARMS, catalogue.recipes()["http-server"]))


def recorded(folder: Path, log_ratio: float = 0.3, *, seed: int = 1, blocks: int = 9) -> Path:
    """The record of a comparison on one machine, in a new folder."""
    truths = {
        name: factories.TrueValues(cost_ns=10_000.0 * math.exp(log))
        for name, log in zip(ARMS, (0.0, log_ratio), strict=True)
    }
    run = factories.sliced(ARMS)
    with RunWriter(folder, run) as writer:
        for trial in factories.trials(run, truths, seed=seed, blocks=blocks):
            writer.add(trial)
    return folder


@dataclass
class Bench:
    """An agent of this process, whose campaigns write the record `source`.

    With `steps` they write as many lines as that file has bytes.
    """

    keys: Path
    folder: Path
    source: Path
    steps: Path | None = None
    permissions: Permissions = field(default_factory=lambda: PERMISSIONS)
    version: str = VERSION
    port: int = 0
    notes: list[str] = field(default_factory=list)

    def start(self) -> None:
        words = (sys.executable, "-S", "-E", str(REPLAY), str(self.source), str(self.steps or ""))
        self.campaigns = Campaigns(
            self.folder, self.permissions, note=self.notes.append, command=words
        )
        self.agent = Agent(
            ListenAddress("127.0.0.1", self.port),
            read_keys(self.keys, AGENT),
            self.version,
            self.notes.append,
            permissions=self.permissions,
            campaigns=self.campaigns,
        )
        self.port = self.agent.port
        self._thread = threading.Thread(target=self.agent.serve, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self.agent.close()
        self._thread.join(10)

    def cut(self) -> None:
        """Cuts all connections, as a network does."""
        for channel in list(self.agent._channels):
            channel.cut()

    @property
    def address(self) -> ListenAddress:
        return ListenAddress("127.0.0.1", self.port)

    @contextmanager
    def client(self) -> Iterator[CampaignAgent]:
        keys = read_keys(self.keys, CLIENT)
        with session(self.address, keys, self.version, CampaignAgent, CAMPAIGNS) as link:
            yield link


@contextmanager
def running(benches: Sequence[Bench]) -> Iterator[None]:
    with ExitStack() as held:
        for bench in benches:
            bench.start()
            held.callback(bench.stop)
        yield


def plan_of(benches: Sequence[Bench], folder: Path, **asked: object) -> MachinesPlan:
    request = ComparisonRequest(
        arms=asked.pop("arms", ARMS),  # type: ignore[arg-type]
        machine=tuple(bench.address.text for bench in benches),
        server_keys=str(benches[0].keys),
        seed=1,
        **asked,  # type: ignore[arg-type]
    )
    return new_plan(request, folder, VERSION)


def measured(plan: MachinesPlan, *, is_resumed: bool = False) -> list[str]:
    """Measures to the end, and returns what was noted."""
    notes: list[str] = []
    assert measure_machines([plan], notes.append, is_resumed=is_resumed) == (True, "")
    return notes


def trials(folder: Path) -> bytes:
    return (folder / "trials.jsonl").read_bytes()


def begun(bench: Bench) -> int:
    """How many processes of campaigns it has started."""
    return sum("begins, process" in note for note in bench.notes)
