"""The emulated network between two namespaces: delays, losses and rates, as its counters say.

The emulator shares its core with the tests, so that only lower bounds of times are asserted, and
that packets are lost or dropped exactly as they are counted.
"""

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jissoku.errors import HostLost, InputError
from jissoku.fleet.emulated import EmulatedNetwork, emulated_bench, end
from tests.conftest import JISSOKU

# Of linux/sched.h and asm-generic/socket.h.
CLONE_NEWNET = 0x4000_0000
SO_RCVBUFFORCE = 33

NEAR, FAR = "198.18.0.1", "198.18.0.2"

# Bytes of the heads of IPv4 and UDP before those that are sent.
HEADS = 28

# Longer than a datagram is under way in any of these tests.
SILENCE_S = 1.0


@dataclass
class Sides:
    """Two namespaces with an emulated network between them."""

    process: subprocess.Popen[str]
    network: EmulatedNetwork
    names: tuple[str, str]

    def sockets(self, kind: int = socket.SOCK_DGRAM) -> tuple[socket.socket, socket.socket]:
        """One on each side."""
        return socket_in(self.names[0], kind), socket_in(self.names[1], kind)


def socket_in(namespace: str, kind: int) -> socket.socket:
    """A socket of a namespace; the thread that has made it ends."""

    def make() -> socket.socket:
        with Path("/run/netns", namespace).open() as found:
            assert ctypes.CDLL(None).setns(found.fileno(), CLONE_NEWNET) == 0
        made = socket.socket(socket.AF_INET, kind)
        made.settimeout(30)
        return made

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(make).result()


def ip(*words: str) -> bool:
    program = shutil.which("ip")
    assert program is not None
    return subprocess.run((program, *words), capture_output=True, check=False).returncode == 0


@pytest.fixture
def sides() -> Iterator[Sides]:
    if os.geteuid() != 0 or not shutil.which("ip"):
        pytest.skip("network namespaces need root and ip (iproute2)")
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.skip("there are no tunnel devices")
    names = tuple(f"jissoku-{os.getpid()}-{side}" for side in "nf")
    devices = tuple(f"jst{os.getpid() % 100_000}{side}" for side in "nf")
    pipe = subprocess.PIPE
    words = [*JISSOKU, "lab", "network", *devices]
    with ExitStack() as held:
        process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        held.callback(end, process)
        assert process.stdout is not None
        if not process.stdout.readline():
            assert process.stderr is not None
            pytest.skip(f"there are no tunnel devices here: {process.stderr.read()}")
        for name, device, address in zip(names, devices, (NEAR, FAR), strict=True):
            if not ip("netns", "add", name):
                pytest.skip("network namespaces are not allowed here")
            held.callback(ip, "netns", "del", name)
            queue = ("txqueuelen", "10000", "addrgenmode", "none")
            assert ip("link", "set", device, "netns", name)
            assert ip("-n", name, "link", "set", device, *queue)
            assert ip("-n", name, "addr", "add", f"{address}/30", "dev", device)
            assert ip("-n", name, "link", "set", device, "up")
        yield Sides(process, EmulatedNetwork(process), (names[0], names[1]))


def received(sides: Sides, count: int, size: int = 100) -> tuple[list[int], dict[str, Any], float]:
    """The numbers of datagrams that arrive of those sent at once, and what was counted.

    Also the time from before the first is sent until the last has arrived, in seconds.
    """
    near, far = sides.sockets()
    with near, far:
        far.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 * 1024 * 1024)
        far.bind((FAR, 9000))
        far.settimeout(SILENCE_S)
        began = last = time.monotonic()
        for number in range(count):
            near.sendto(number.to_bytes(4, "big") + bytes(size - 4), (FAR, 9000))
        found = []
        try:
            while True:
                found.append(int.from_bytes(far.recv(2048)[:4], "big"))
                last = time.monotonic()
        except TimeoutError:
            pass
    return found, sides.network.forwarded()["there"], last - began


def test_a_round_trip_takes_both_delays_at_least(sides: Sides) -> None:
    near, far = sides.sockets()
    with near, far:
        far.bind((FAR, 9000))

        def round_trip_s() -> float:
            began = time.monotonic()
            near.sendto(b"there", (FAR, 9000))
            far.sendto(*far.recvfrom(16))
            near.recv(16)
            return time.monotonic() - began

        for delays, least_s in (
            ("there delay 5ms back delay 3ms", 0.008),
            ("delay 2ms", 0.004),
            ("there delay 6ms", 0.006),
            ("jitter constant:7ms", 0.014),
        ):
            sides.network.use(delays)
            assert min(round_trip_s() for _ in range(5)) >= least_s, delays
        counted = sides.network.use("")
        assert counted["there"]["packets"] == counted["back"]["departed"] == 5


def test_exactly_what_is_counted_is_lost_and_the_same_at_each_time(sides: Sides) -> None:
    found = []
    for properties in ("loss 10%", "loss 10% burst 5", "loss 10%"):
        sides.network.use(properties)
        numbers, there, _ = received(sides, 2_000)
        assert there["packets"] == 2_000
        assert there["lost"] == 2_000 - len(numbers)
        assert there["departed"] == len(numbers)
        assert 100 < there["lost"] < 400
        found.append(numbers)
    first, bursts, again = found
    assert first == again
    assert first != bursts


def test_a_rate_is_not_exceeded_and_a_full_queue_drops(sides: Sides) -> None:
    sides.network.use("rate 20Mbit/s queue 100M")
    numbers, there, took_s = received(sides, 500, 1_000)
    assert numbers == list(range(500))
    assert took_s >= 500 * (1_000 + HEADS) * 8 / 20e6
    assert there["bytes"] == 500 * (1_000 + HEADS)

    sides.network.use("rate 1Mbit/s queue 20K")
    numbers, there, _ = received(sides, 200, 1_000)
    assert there["queue_full"] == 200 - len(numbers) > 0
    assert there["queue_bytes_max"] <= 20 * 1024


def test_a_transfer_takes_as_long_as_its_bytes(sides: Sides) -> None:
    sides.network.use("rate 16Mbit/s")
    near, listening = sides.sockets(socket.SOCK_STREAM)
    with near, listening:
        listening.bind((FAR, 9000))
        listening.listen()
        near.connect((FAR, 9000))
        far, _ = listening.accept()
        with far, ThreadPoolExecutor(1) as sending:
            began = time.monotonic()
            sent = sending.submit(near.sendall, bytes(400_000))
            left = 400_000
            while left:
                left -= len(far.recv(65_536))
            took_s = time.monotonic() - began
            sent.result()
    assert took_s >= 400_000 * 8 / 16e6


def test_what_cannot_be_read_changes_nothing(sides: Sides) -> None:
    sides.network.use("loss 100%")
    with pytest.raises(InputError, match="network 'delay often': write a duration"):
        sides.network.use("delay often")
    near, far = sides.sockets()
    with near, far:
        near.sendto(b"lost", (FAR, 9000))
        deadline = time.monotonic() + 30
        lost = 0
        while not lost and time.monotonic() < deadline:
            lost = sides.network.use("loss 100%")["there"]["lost"]
    assert lost == 1


@pytest.mark.parametrize("how", ["interrupt", "terminate", "end of input", "a side is gone"])
def test_it_ends_with_its_counters(sides: Sides, how: str) -> None:
    process = sides.process
    if how == "interrupt":
        process.send_signal(signal.SIGINT)
    elif how == "terminate":
        process.terminate()
    elif how == "end of input":
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None  # As `end` has it.
    else:
        ip("netns", "del", sides.names[1])
    process.wait(60)
    assert process.stdout is not None
    assert process.stderr is not None
    said, complaint = process.stdout.read(), process.stderr.read()
    assert json.loads(said)["schema"] == "jissoku.network/1"
    is_gone = how == "a side is gone"
    assert process.returncode == is_gone, complaint
    assert complaint.startswith("jissoku lab network: the network has ended: ") is is_gone


def test_a_forwarder_that_has_ended_is_a_lost_host(sides: Sides) -> None:
    sides.process.kill()
    sides.process.wait(60)
    with pytest.raises(HostLost, match="the emulated network has ended"):
        sides.network.use("")


def refusals() -> Sequence[tuple[str, ...]]:
    return ("near0",), ("near0", "far0", "delay"), ("near0", "far0", "speed 5"), ("a" * 16, "far0")


@pytest.mark.parametrize("words", refusals())
def test_wrong_words_are_refused(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [*JISSOKU, "lab", "network", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("jissoku lab")
    assert done.stderr.count("\n") == 1


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jissoku.fleet.emulated.shutil.which", lambda _: None)
    with pytest.raises(InputError, match="needs the program ip, which"), emulated_bench("1.0"):
        pass


def test_a_forwarder_that_cannot_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    words = (sys.executable, "-c", "import sys; sys.exit('no device')")
    monkeypatch.setattr("jissoku.fleet.emulated.PROGRAM", words)
    monkeypatch.setattr("jissoku.fleet.emulated.make_keys", lambda *_: None)
    monkeypatch.setattr("jissoku.fleet.emulated.shutil.which", lambda name: f"/bin/{name}")
    with pytest.raises(InputError, match="here: no device; run it as root"), emulated_bench("1.0"):
        pass
