"""Two hosts on this machine, with an emulated network between them.

The servers' host is a network namespace, with an agent of its own. The load comes from this one,
by the agent of a load host, so that the path is measured, too. Between both are two interfaces that
`jissoku lab network` creates and forwards between. All of it ends with the client, also if that is
killed: the supervisor ends both agents, and the interfaces end with their forwarder.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from jissoku.errors import HostLost, InputError
from jissoku.fleet.bench import Bench
from jissoku.fleet.connecting import session
from jissoku.fleet.keys import CLIENT, ListenAddress, make_keys, read_keys
from jissoku.fleet.load_agent import LoadAgent
from jissoku.model import Run, updated
from jissoku.system.cores import available_cores, partition_cores
from jissoku.system.program import PROGRAM

# Addresses for benchmarks (RFC 2544, RFC 6890), of the load's side and of the servers'.
NEAR, FAR = "198.18.0.1", "198.18.0.2"
PREFIX = 30
NEAR_PORT, FAR_PORT = 7471, 7470

# Packets that an interface holds while its forwarder waits for a core.
QUEUE_PACKETS = 10_000

NEEDED = ("ip", "unshare", "openssl")

# Waits until its interface is there, and becomes the agent.
BECOME_AGENT = """
echo ready && read -r _ && ip link set lo up && ip addr add {address} dev {device} &&
ip link set {device} up && exec "$@"
"""


class EmulatedNetwork:
    """The forwarder between two interfaces, and its properties."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """It forwards already, without any effect."""
        self._process = process
        self.properties = ""

    def use(self, properties: str) -> dict[str, Any]:
        """Has these properties from now on, and returns what was forwarded with those before.

        InputError if they cannot be read. HostLost: the forwarder has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{properties}\n")
            self._process.stdin.flush()
            said = self._process.stdout.readline()
        except BrokenPipeError:
            said = ""
        if not said:
            raise HostLost("the emulated network has ended")
        if said.startswith("refused: "):
            raise InputError(f"network {properties!r}: {said.partition(': ')[2].strip()}")
        self.properties = properties
        found: dict[str, Any] = json.loads(said)
        return found

    def forwarded(self) -> dict[str, Any]:
        """What was forwarded since the last call of this or of `use`."""
        return self.use(self.properties)


class EmulatedBench(Bench):
    """A bench of this machine whose path has the properties that are asked of `network`."""

    network: EmulatedNetwork  # type: ignore[mutable-override]  # It always has one.

    def describe(self, run: Run) -> Run:
        described = super().describe(run)
        assert described.load_host is not None
        load = updated(described.load_host, network=self.network.properties)
        return updated(described, load_host=load)


@contextmanager
def emulated_bench(version: str) -> Iterator[EmulatedBench]:
    """Both hosts, with a session, until the block ends; InputError says what is missing here."""
    if missing := [name for name in NEEDED if not shutil.which(name)]:
        raise InputError(f"an emulated network needs the program {missing[0]}, which is not here")
    near, far = (f"jsk{os.getpid() % 10_000_000}{end}" for end in "nf")
    with ExitStack() as held:
        folder = held.enter_context(tempfile.TemporaryDirectory(prefix="jissoku-network-"))
        keys = Path(folder) / "keys"
        make_keys(keys, FAR, NEAR)
        network = EmulatedNetwork(_forwarder(held, near, far))
        servers = _in_namespace(held, far, _agent(keys, FAR, FAR_PORT))
        _ip("link", "set", far, "netns", str(servers.pid))
        _ip("link", "set", near, "up")
        _ip("addr", "add", f"{NEAR}/{PREFIX}", "dev", near)
        with suppress(InputError):
            _ip("link", "set", "lo", "up")  # It is down in a new namespace.
        assert servers.stdin is not None
        servers.stdin.write("go\n")
        servers.stdin.flush()
        _await_listening(servers)
        loads = _started(held, _agent(keys, NEAR, NEAR_PORT, "--load-to", FAR))
        _await_listening(loads)
        read = read_keys(keys, CLIENT)
        far_agent, near_agent = ListenAddress(FAR, FAR_PORT), ListenAddress(NEAR, NEAR_PORT)
        bench = held.enter_context(session(far_agent, read, version, EmulatedBench))
        bench.use([held.enter_context(session(near_agent, read, version, LoadAgent))])
        bench.network = network
        yield bench


def _agent(keys: Path, host: str, port: int, *more: str) -> tuple[str, ...]:
    return (*PROGRAM, "agent", "--listen", f"{host}:{port}", "--keys", str(keys), *more)


def _forwarder(held: ExitStack, near: str, far: str) -> subprocess.Popen[str]:
    """Both interfaces, with what forwards between them on the load's cores."""
    cores = ",".join(map(str, partition_cores(available_cores()).generator))
    process = _started(held, (*PROGRAM, "lab", "network", near, far, "--cores", cores))
    assert process.stdout is not None
    if not process.stdout.readline().startswith("forwarding"):
        said = process.stderr.read().strip() if process.stderr else ""
        raise InputError(
            f"no network can be emulated here: {said}; run it as root, or in a namespace of your"
            " own: unshare --user --map-root-user --net jissoku run ..."
        )
    # A load generator that polls would else keep it waiting.
    with suppress(OSError):
        os.sched_setscheduler(process.pid, os.SCHED_FIFO, os.sched_param(1))
    for device in (near, far):
        _ip("link", "set", device, "txqueuelen", str(QUEUE_PACKETS), "addrgenmode", "none")
    return process


def _in_namespace(held: ExitStack, device: str, words: Sequence[str]) -> subprocess.Popen[str]:
    """What becomes this program in a network namespace of its own, when it gets a line."""
    script = BECOME_AGENT.format(address=f"{FAR}/{PREFIX}", device=device)
    process = _started(held, ("unshare", "--net", "sh", "-c", script, "sh", *words))
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        said = process.stderr.read().strip() if process.stderr else ""
        raise InputError(f"no network namespace can be made here: {said}")
    return process


def _await_listening(agent: subprocess.Popen[str]) -> None:
    assert agent.stdout is not None
    if not agent.stdout.readline().startswith("Listening on "):
        said = agent.stderr.read().strip() if agent.stderr else ""
        raise InputError(f"an agent for the emulated network did not start: {said}")


def _started(held: ExitStack, words: Sequence[str]) -> subprocess.Popen[str]:
    """A process that ends with `held`; Ctrl-C is for the client, which ends it then."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        words, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    held.callback(end, process)
    return process


def end(process: subprocess.Popen[str]) -> None:
    """Ends a process, and reads what it still says."""
    process.terminate()
    try:
        process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def _ip(*words: str) -> None:
    program = shutil.which("ip")
    assert program is not None, "it is needed"
    done = subprocess.run((program, *words), capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"ip {' '.join(words)}: {done.stderr.strip()}")
