"""`jissoku sample` on small programs: stacks that are hard to follow, and what is not sampled."""

import ctypes
import json
import platform
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jissoku.system import processes
from tests.conftest import JISSOKU, LIMIT_S
from tests.profiles.test_injected import compiled

pytestmark = pytest.mark.slow

# prctl(2).
PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
SECCOMP_MODE_FILTER = 2

# capabilities(7): what allows to sample the kernel in spite of kernel.perf_event_paranoid.
CAP_SYS_ADMIN, CAP_PERFMON = 21, 38

# Two hundred samples.
CPU_TIME_NS = 200_000_000

PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}


@contextmanager
def running(command: list[str]) -> Iterator[int]:
    """The process of a program that runs meanwhile."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def sample(
    pid: int, *words: str, duration: str = "300ms", prepare: Any = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*JISSOKU, "sample", str(pid), "-d", duration, "-F", "997", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
        preexec_fn=prepare,
    )


def sampled(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    if "not allowed" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def stacks(found: dict[str, Any]) -> list[list[str]]:
    """Names of functions, innermost first, of each different stack."""
    names = [frame["function"] for frame in found["frames"]]
    return [[names[frame] for frame in stack["frames"]] for stack in found["stacks"]]


SPINNING = [sys.executable, "-c", "while True: pass"]


@pytest.mark.parametrize("toggles", [1, 2])
def test_a_paused_sampler_takes_no_samples(toggles: int) -> None:
    with running(SPINNING) as pid, sampling(pid, "--no-interpreters") as sampler:
        sampler.send_signal(signal.SIGUSR2)
        sampler.send_signal(signal.SIGUSR1)
        wait_for_cpu_time(pid)
        if toggles == 2:
            sampler.send_signal(signal.SIGUSR2)
            wait_for_cpu_time(pid)
        sampler.send_signal(signal.SIGINT)
        out, _ = sampler.communicate(timeout=LIMIT_S)
    assert (json.loads(out)["samples"] > 0) == (toggles == 2)


@contextmanager
def sampling(pid: int, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A sampler that takes samples; it ends with the block."""
    command = [*JISSOKU, "sample", str(pid), "-F", "997", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        if line != "sampling\n":
            process.wait()
            pytest.skip(line.strip())
        try:
            yield process
        finally:
            process.kill()


WAITS = """
import queue, threading, time

def worker():
    queue.Queue().get()

def handler():
    time.sleep(600)

threading.Thread(target=worker, daemon=True).start()
print("up", flush=True)
handler()
"""


def test_functions_of_python_that_wait_are_found(tmp_path: Path) -> None:
    program = tmp_path / "app.py"
    program.write_text(WAITS)
    command = [sys.executable, str(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            done = sample(process.pid, "--waiting")
        finally:
            process.kill()
    assert done.returncode == 0, done.stderr
    found = {one["function"] for one in json.loads(done.stdout)}
    assert "handler at app.py:8" in found
    assert any(one.endswith(", called by worker at app.py:5") for one in found)


def wait_for_cpu_time(pid: int) -> None:
    """Until the process has used enough for many samples."""
    until_ns = processes.cpu_ns(pid) + CPU_TIME_NS
    while processes.cpu_ns(pid) < until_ns:
        time.sleep(0.01)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the program is of x86-64")
def test_callers_of_assembler_functions_are_found(tmp_path: Path) -> None:
    with running([compiled("assembler.c", tmp_path)]) as pid:
        found = sampled(sample(pid, "--user-only"))
    assert found["cut_stacks"] == 0
    in_register = ["helper", "in_register", "calls_in_register", "main"]
    on_stack = ["on_stack", "calls_on_stack", "main"]
    seen = stacks(found)
    for expected in (in_register, on_stack):
        of_it = [stack for stack in seen if stack[0] == expected[0]]
        assert of_it
        for stack in of_it:
            assert stack[: len(expected)] == expected


def forbid_sampling() -> None:
    """Makes perf_event_open(2) fail with EPERM, as containers do (seccomp(2))."""
    load, jump_equal, give = 0x20, 0x15, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000 | 1
    call = PERF_EVENT_OPEN[platform.machine()]
    program = [(load, 0, 0, 0), (jump_equal, 0, 1, call), (give, 0, 0, refuse), (give, 0, 0, allow)]
    code = b"".join(struct.pack("HBBI", *words) for words in program)
    instructions = ctypes.create_string_buffer(code, len(code))
    # struct sock_fprog: a number of instructions, and their address.
    fields = struct.pack("HxxxxxxP", len(program), ctypes.addressof(instructions))
    whole = ctypes.create_string_buffer(fields, len(fields))
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0)
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(whole))


def forbid_the_kernel() -> None:
    """Drops the capabilities that allow to sample the kernel."""
    prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0)
    prctl(PR_CAPBSET_DROP, CAP_PERFMON, 0)


def prctl(option: int, first: int, second: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    words = [ctypes.c_ulong(word) for word in (first, second, 0, 0)]
    if libc.prctl(ctypes.c_int(option), *words):
        raise OSError(ctypes.get_errno(), f"prctl({option})")


def test_without_permission_a_sentence_says_what_would_permit_it() -> None:
    if platform.machine() not in PERF_EVENT_OPEN:
        pytest.skip("the number of the system call is not known here")
    with running([sys.executable, "-c", "while True: pass"]) as pid:
        done = sample(pid, prepare=forbid_sampling)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("jissoku sample: sampling is not allowed here (kernel.perf_event_paran")
    assert "a container may also forbid perf_event_open" in line


def test_where_the_kernel_is_forbidden_user_space_is_sampled() -> None:
    paranoid = Path("/proc/sys/kernel/perf_event_paranoid").read_text().strip()
    if int(paranoid) != 2:
        pytest.skip(f"kernel.perf_event_paranoid is {paranoid}")
    reader = "while True: open('/proc/self/stat').read()"
    with running([sys.executable, "-c", reader]) as pid:
        done = sample(pid, prepare=forbid_the_kernel)
    found = sampled(done)
    assert not found["sees_kernel"]
    assert found["samples"] > 0
    assert found["kernel_samples"] == 0
    assert "The kernel was not sampled: its part is what is left." in found["notes"]
    assert found["counted_ns"] > found["samples"] * found["period"], "the kernel's time counts"


def test_a_process_that_ends_keeps_what_was_sampled() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    with running([sys.executable, "-c", burn]) as pid:
        found = sampled(sample(pid, duration="60s"))
    assert "The target ended while it was sampled." in found["notes"]
    assert found["samples"] > 0
    assert found["duration_ns"] < 60e9


def test_a_process_that_does_not_exist_is_a_sentence() -> None:
    done = sample(2**22 - 1)
    assert done.returncode == 1
    assert done.stderr == "jissoku sample: there is no such process\n"


FORKING = "import os\nwhile True:\n pid = os.fork()\n if not pid: os._exit(0)\n os.waitpid(pid, 0)"


@pytest.mark.race
def test_processes_shorter_than_a_period_are_sampled() -> None:
    with running([sys.executable, "-c", FORKING]) as pid:
        found = sampled(sample(pid))
    if found["counted_ns"] is not None:
        pytest.skip("whole cores cannot be sampled here")
    assert found["processes_started"] > 10
    processes = {found["threads"][stack["thread"]]["process"] for stack in found["stacks"]}
    assert len(processes) > 10


def test_where_threads_are_sampled_processes_shorter_than_a_period_are_counted() -> None:
    with running([sys.executable, "-c", FORKING]) as pid:
        found = sampled(sample(pid, prepare=forbid_the_kernel))
    assert found["processes_started"] > 10
    assert found["counted_ns"] > found["samples"] * found["period"]


def test_other_processes_of_the_same_cores_are_not_sampled() -> None:
    with running([sys.executable, "-c", "while True: pass"]), running(["sleep", "60"]) as pid:
        found = sampled(sample(pid))
    assert found["samples"] <= 1
    assert len(found["threads"]) <= 1
