"""The sampler beside hours of load: bounded memory, and no time that it forgets."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.endurance.conftest import JISSOKU, loading, print_line, serving

MEMORY_MAX_MIB = 64.0

# Of the CPU time that the kernel counts: of a server that sleeps often, samples miss a quarter.
MISSING_MAX = 0.5

# A process that starts others, which end at once: as many address spaces as come and go.
FORKING = """
import os, time
while True:
    pid = os.fork()
    pid or os._exit(0)
    os.waitpid(pid, 0)
    time.sleep(0.01)
"""


@pytest.mark.endurance
def test_sampling_for_hours_takes_bounded_memory(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    seconds = 60 * float(request.config.getoption("--minutes"))
    output = tmp_path / "sample.json"
    with (
        serving("--contract", "--workers", "1") as server,
        subprocess.Popen([sys.executable, "-c", FORKING]) as forking,
        loading("-R", "5000", "-d", f"{seconds:.0f}s", server.url),
        output.open("w") as file,
    ):
        pids = [str(server.pid), str(forking.pid)]
        command = [*JISSOKU, "sample", *pids, "-d", f"{seconds - 5:.0f}s"]
        with subprocess.Popen(command, stdout=file, stderr=subprocess.PIPE, text=True) as sampler:
            assert sampler.stderr is not None
            assert sampler.stderr.readline() == "sampling\n"
            before_s, start_s = server.cpu_s(), time.monotonic()
            peaks = watch_memory(sampler)
            # Names were looked up after the last sample.
            busy = (server.cpu_s() - before_s) / (time.monotonic() - start_s)
        forking.kill()
    found = json.loads(output.read_text())
    early, last = peaks[len(peaks) // 10], peaks[-1]
    text = f"{found['samples']:,} samples, {found['processes_started']:,} processes"
    minutes = found["duration_ns"] / 60e9
    print_line(request, f"{minutes:.1f} minutes: {text}; {early:.1f} MiB, then {last:.1f} MiB")
    assert last < MEMORY_MAX_MIB
    assert found["lost"] == 0
    assert found["processes_started"] > 0
    # The server was started first.
    counts = (one["count"] for one in found["stacks"] if is_server(found, one))
    assert sum(counts) * found["period"] / found["duration_ns"] > (1 - MISSING_MAX) * busy


def is_server(found: dict[str, Any], stack: dict[str, Any]) -> bool:
    process: int = found["threads"][stack["thread"]]["process"]
    return process == 0


def watch_memory(process: subprocess.Popen[str]) -> list[float]:
    """The peak of a process's memory in MiB so far, fifty times a second until it ends."""
    status = Path(f"/proc/{process.pid}/status")
    peaks = [0.0]
    while process.poll() is None:
        # An ended process has no memory.
        peak = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        peaks.append(int(peak[1]) / 1024 if peak else peaks[-1])
        time.sleep(0.02)
    return peaks
