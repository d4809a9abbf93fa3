"""Hosts of ssh on loopback: servers of ssh of this user, each with keys and a state of its own."""

import getpass
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from jissoku.cli.commands import jissoku
from jissoku.errors import InputError, JissokuError
from jissoku.fleet.over_ssh import KnownAgent
from jissoku.system.measurement_lock import PATH_VARIABLE
from tests.conftest import Done

# A server of ssh starts itself again, and so is named by its path.
SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
NAMES = ("a", "b", "c")

# Agents of different tests listen at the same port, and so at different addresses.
MADE = itertools.count()
ROOT = Path(__file__).parents[2]

CLIENT = """
Host *
  User {user}
  IdentityFile {place}/id
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {place}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
"""

SERVER = """
ListenAddress {address}
Port {port}
HostKey {place}/host_key
PidFile none
AuthorizedKeysFile {place}/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
StrictModes no
UsePAM no
SetEnv XDG_STATE_HOME={state} {lock_variable}={place}/lock PATH={programs}:{path}
"""


@dataclass
class SshHosts:
    """What a client of the hosts a, b and c needs."""

    place: Path
    addresses: dict[str, tuple[str, int]]

    @property
    def ssh(self) -> str:
        return f"ssh -F {self.place / 'config'}"

    def agent_folder(self, name: str) -> Path:
        """The folder of the one agent that the host has, or has had."""
        (found,) = self.state(name).glob("jissoku/agents/*")
        return found

    def state(self, name: str) -> Path:
        return self.place / f"{name}.state"

    def program(self, name: str) -> Path:
        """What `jissoku` is on that host."""
        return self.place / f"{name}.programs" / "jissoku"

    def write_program(self, name: str, text: str) -> None:
        program = self.program(name)
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)

    def fleet(self, *words: str) -> Done:
        """`jissoku fleet`, in this process."""
        done = CliRunner().invoke(jissoku, ["fleet", *words], standalone_mode=False)
        if isinstance(done.exception, JissokuError):
            code = 2 if isinstance(done.exception, InputError) else 1
            return Done(code, done.stdout, f"{done.stderr}jissoku: {done.exception}\n")
        assert done.exception is None, done.exc_info
        return Done(int(done.return_value), done.stdout, done.stderr)

    def init(self, *names: str) -> Done:
        return self.fleet("init", *(names or NAMES), "--ssh", self.ssh)

    def agent(self, name: str) -> KnownAgent:
        """The agent that was started last on a host."""
        file = self.agent_folder(name) / "agent.json"
        return msgspec.json.decode(file.read_bytes(), type=KnownAgent)

    def end_agents(self) -> None:
        """Ends what a test has left, by what the hosts have noted."""
        for file in self.place.glob("*.state/jissoku/agents/*/agent.json"):
            agent = msgspec.json.decode(file.read_bytes(), type=KnownAgent)
            if agent.runs():
                os.kill(agent.pid, signal.SIGKILL)


def _keygen(path: Path) -> None:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


@contextmanager
def _server(config: Path) -> Iterator[None]:
    assert SSHD is not None
    words = [SSHD, "-D", "-e", "-f", str(config)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith("Server listening"):
                break
        else:
            pytest.fail(f"sshd has not begun to listen: {''.join(said)}")
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()


@contextmanager
def ssh_hosts(place: Path) -> Iterator[SshHosts]:
    """Three hosts at addresses that no other test has; skips without a server of ssh."""
    if SSHD is None or not shutil.which("ssh-keygen"):
        pytest.skip("there is no sshd: apt-get install openssh-server")
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # It gives up its rights there.
    _keygen(place / "id")
    _keygen(place / "host_key")
    shutil.copy(place / "id.pub", place / "authorized_keys")
    host_key = (place / "host_key.pub").read_text().strip()
    addresses, known, config = {}, [], []
    network = 256 + (os.getpid() * 50 + next(MADE)) % (1 << 15)
    for number, name in enumerate(NAMES, 1):
        address = f"127.{network >> 8}.{network & 255}.{number}"
        with socket.create_server((address, 0)) as taken:
            port = taken.getsockname()[1]
        addresses[name] = (address, port)
        known.append(f"[{address}]:{port} {host_key}\n")
        config.append(f"Host {name}\n  HostName {address}\n  Port {port}\n")
    (place / "known_hosts").write_text("".join(known))
    (place / "config").write_text(
        "".join(config) + CLIENT.format(user=getpass.getuser(), place=place)
    )
    hosts = SshHosts(place, addresses)
    with ExitStack() as held:
        held.callback(hosts.end_agents)
        for name, (address, port) in addresses.items():
            source = f'PYTHONPATH={ROOT / "python"} exec {sys.executable} -m jissoku "$@"'
            hosts.write_program(name, source)
            file = place / f"{name}.sshd"
            file.write_text(
                SERVER.format(
                    address=address,
                    port=port,
                    place=place,
                    state=hosts.state(name),
                    lock_variable=PATH_VARIABLE,
                    programs=hosts.program(name).parent,
                    path="/usr/local/bin:/usr/bin:/bin:/usr/sbin",
                )
            )
            held.enter_context(_server(file))
        yield hosts
