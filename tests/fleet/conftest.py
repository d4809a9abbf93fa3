"""An agent in this process, and its keys."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from jissoku.fleet.agent import Agent
from jissoku.fleet.channel import Channel
from jissoku.fleet.connecting import connected
from jissoku.fleet.keys import AGENT, CLIENT, ListenAddress, make_keys, read_keys
from jissoku.fleet.permissions import Permissions
from jissoku.fleet.remote import RemoteHost

VERSION = "jissoku of a test"

# An agent whose operator allows any command.
COMMANDS = Permissions(commands=True)


@pytest.fixture(scope="session")
def keys_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl")
    folder = tmp_path_factory.mktemp("keys") / "fleet"
    make_keys(folder, "127.0.0.1")
    return folder


@dataclass
class RunningAgent:
    agent: Agent
    keys: Path
    notes: list[str]
    host: str = "127.0.0.1"
    opened: list[Channel] = field(default_factory=list)

    @property
    def address(self) -> ListenAddress:
        return ListenAddress(self.host, self.agent.port)

    def client(self, version: str = VERSION) -> AbstractContextManager[RemoteHost]:
        return connected(self.address, read_keys(self.keys, CLIENT), version)


@contextmanager
def running_agent(
    keys: Path, host: str = "127.0.0.1", permissions: Permissions | None = None
) -> Iterator[RunningAgent]:
    notes: list[str] = []
    agent = Agent(
        ListenAddress(host, 0),
        read_keys(keys, AGENT),
        VERSION,
        notes.append,
        permissions=permissions,
    )
    thread = threading.Thread(target=agent.serve, daemon=True)
    thread.start()
    running = RunningAgent(agent, keys, notes, host)
    try:
        yield running
    finally:
        for channel in running.opened:
            channel.close()
        agent.close()
        thread.join(10)


@pytest.fixture
def agent(keys_folder: Path) -> Iterator[RunningAgent]:
    with running_agent(keys_folder) as found:
        yield found
