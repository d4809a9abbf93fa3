"""An agent in this process, and its keys."""

import os
import shutil
import subprocess
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


# Addresses of the two ends of a veth pair.
HOME, SERVER = "10.77.0.1", "10.77.0.2"


@pytest.fixture
def namespaces() -> Iterator[tuple[list[str], list[str]]]:
    """The words that start a program in each of two network namespaces, joined by a veth pair."""
    program = shutil.which("ip")
    if os.geteuid() != 0 or program is None:
        pytest.skip("network namespaces need root and ip (iproute2)")
    names = [f"jissoku-{os.getpid()}-{end}" for end in "ab"]
    ends = [f"jsk{os.getpid() % 100_000}{end}" for end in "ab"]

    def ip(*words: str) -> bool:
        done = subprocess.run([program, *words], capture_output=True, check=False)
        return done.returncode == 0

    try:
        if not all(ip("netns", "add", name) for name in names):
            pytest.skip("network namespaces are not allowed here")
        if not ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1]):
            pytest.skip("this kernel has no veth")
        for name, end, address in zip(names, ends, (HOME, SERVER), strict=True):
            assert ip("link", "set", end, "netns", name)
            assert ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
            assert ip("-n", name, "link", "set", end, "up")
            assert ip("-n", name, "link", "set", "lo", "up")
        yield tuple(["ip", "netns", "exec", name] for name in names)  # type: ignore[misc]
    finally:
        for name in names:
            ip("netns", "del", name)
