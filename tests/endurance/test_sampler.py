"""The sampler beside hours of load: bounded memory, and no time that it forgets."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.endurance.conftest import JISSOKU, loading, print_line, serving

MEMORY_MAX_MIB = 64.0

# Samples per second of CPU time, by default.
FREQUENCY = 199

# Records per sample, above the default frequency.
LOST_MAX = 0.01

# Of the CPU time that the kernel counts: of a server that sleeps often, samples miss a quarter.
MISSING_MAX = 0.5

# A process that starts 90 others a second, which end at once: address spaces come and go.
FORKING = """
import os, time
start, count = time.monotonic(), 0
while True:
    pid = os.fork()
    pid or os._exit(0)
    os.waitpid(pid, 0)
    count += 1
    time.sleep(max(0, start + count / 90 - time.monotonic()))
"""


@pytest.mark.endurance
@pytest.mark.timeout(9000)
def test_sampling_for_hours_takes_bounded_memory(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    seconds = 60 * float(request.config.getoption("--minutes"))
    factor = int(request.config.getoption("--load-factor"))
    output = tmp_path / "sample.json"
    with (
        serving("--contract", "--workers", "1") as server,
        forking(factor) as parents,
        loading("-R", "5000", "-d", f"{seconds:.0f}s", server.url),
        output.open("w") as file,
    ):
        options = ["-d", f"{seconds - 5:.0f}s", "-F", str(factor * FREQUENCY)]
        command = [*JISSOKU, "sample", str(server.pid), *map(str, parents), *options]
        with subprocess.Popen(command, stdout=file, stderr=subprocess.PIPE, text=True) as sampler:
            assert sampler.stderr is not None
            assert sampler.stderr.readline() == "sampling\n"
            before_s, start_s = server.cpu_s(), time.monotonic()
            peaks = watch_memory(sampler)
            # Names were looked up after the last sample.
            busy = (server.cpu_s() - before_s) / (time.monotonic() - start_s)
    found = json.loads(output.read_text())
    early = peaks[len(peaks) // 10]
    sampling = [peak for peak in peaks if peak.time_s - start_s < found["duration_ns"] / 1e9]
    last = peaks[-1]
    minutes = found["duration_ns"] / 60e9
    print_line(
        request,
        f"{minutes:.1f} minutes: {found['samples']:,} samples, {len(found['stacks']):,} stacks, "
        f"{found['processes_started']:,} processes, {found['lost']:,} lost; {early.mib:.1f} MiB, "
        f"then {sampling[-1].mib:.1f} MiB, with names {last.mib:.1f} MiB, of which "
        f"{max(peak.private_mib for peak in peaks):.1f} MiB private",
    )
    assert last.mib < MEMORY_MAX_MIB
    # Buffers are made for the default frequency; at many times of it a busy machine fills one.
    assert found["lost"] <= (LOST_MAX * found["samples"] if factor > 1 else 0)
    assert found["processes_started"] > 0
    # The server was started first.
    counts = (one["count"] for one in found["stacks"] if is_server(found, one))
    assert sum(counts) * found["period"] / found["duration_ns"] > (1 - MISSING_MAX) * busy


@contextmanager
def forking(count: int) -> Iterator[list[int]]:
    """Processes that start others all the time."""
    command = [sys.executable, "-c", FORKING]
    with ExitStack() as stack:
        parents = [stack.enter_context(subprocess.Popen(command)) for _ in range(count)]
        try:
            yield [parent.pid for parent in parents]
        finally:
            for parent in parents:
                parent.kill()


def is_server(found: dict[str, Any], stack: dict[str, Any]) -> bool:
    process: int = found["threads"][stack["thread"]]["process"]
    return process == 0


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of a process at a time.

    Attributes:
        time_s: When it was read.
        mib: The peak so far.
        private_mib: What is no page of a file, now.
    """

    time_s: float
    mib: float
    private_mib: float


def watch_memory(process: subprocess.Popen[str]) -> list[Memory]:
    """The memory of a process, fifty times a second until it ends."""
    status = Path(f"/proc/{process.pid}/status")
    found = [Memory(0.0, 0.0, 0.0)]
    while process.poll() is None:
        sizes = dict(re.findall(r"(VmHWM|RssAnon):\s+(\d+) kB", status.read_text()))
        # An ended process has no memory.
        if sizes:
            mib = {name: int(size) / 1024 for name, size in sizes.items()}
            found.append(Memory(time.monotonic(), mib["VmHWM"], mib["RssAnon"]))
        time.sleep(0.02)
    return found
