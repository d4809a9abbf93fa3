"""A target that is killed: the reason names the OOM killer only if it was the cause."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from jissoku.targets import process
from jissoku.targets.placeholders import BuildPaths
from jissoku.targets.process import LaunchOptions
from tests.targets.conftest import Starts, script
from tests.targets.test_process import wait_for_death

MEMORY_BYTES = 64 << 20

# Joins a cgroup, and takes more memory than it has.
GROWS = """
with open({group!r} + "/cgroup.procs", "w") as file: file.write(str(os.getpid()))
held = []
for _ in range(256): held.append(b"x" * (1 << 20))
sys.exit("the cgroup let it have all")
"""

DIES = "os.kill(os.getpid(), signal.SIGKILL)"


def test_a_kill_by_another_process_is_not_out_of_memory(starts: Starts) -> None:
    with starts(DIES) as running:
        wait_for_death(running)
        assert running.exit_description() == "was killed by SIGKILL"


def test_a_kill_while_the_oom_killer_ran_says_so(
    starts: Starts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("pgfault 1\noom_kill 3\n")
    monkeypatch.setattr(process, "VMSTAT", vmstat)
    with starts(DIES) as running:
        vmstat.write_text("pgfault 2\noom_kill 4\n")
        wait_for_death(running)
        assert running.exit_description().startswith("was killed by SIGKILL (out of memory: ")


@pytest.mark.parametrize("text", [None, "pgfault 1\n"], ids=["no file", "no counter"])
def test_a_kernel_that_does_not_count_reports_no_cause(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if text is not None:
        (tmp_path / "vmstat").write_text(text)
    monkeypatch.setattr(process, "VMSTAT", tmp_path / "vmstat")
    assert process.oom_kills() is None
    assert process.oom_cause(signal.SIGKILL, 3) == ""
    assert process.oom_cause(signal.SIGKILL, None) == ""


def test_other_signals_have_other_causes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "vmstat").write_text("oom_kill 9\n")
    monkeypatch.setattr(process, "VMSTAT", tmp_path / "vmstat")
    assert process.oom_cause(signal.SIGSEGV, 3) == ""
    assert process.oom_cause(signal.SIGKILL, 9) == ""
    assert process.oom_cause(signal.SIGKILL, 8) != ""


@pytest.fixture
def small_cgroup() -> Iterator[Path]:
    """A cgroup with little memory."""
    for parent, limit in (
        (Path("/sys/fs/cgroup"), "memory.max"),
        (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
    ):
        group = parent / f"jissoku-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        # A folder where cgroups are only mounted below is none itself.
        if not (group / limit).exists():
            group.rmdir()
            continue
        (group / limit).write_text(str(MEMORY_BYTES))
        for swap in ("memory.swap.max", "memory.swappiness"):
            if (group / swap).exists():
                (group / swap).write_text("0")
        yield group
        group.rmdir()
        return
    pytest.skip("no memory cgroup can be made here: it takes root and a memory controller")


@pytest.mark.race
def test_the_oom_killer_itself_is_named(
    place: BuildPaths, tmp_path: Path, placement: LaunchOptions, small_cgroup: Path
) -> None:
    code = GROWS.format(group=str(small_cgroup))
    with process.start(script(place, tmp_path, code), placement) as running:
        wait_for_death(running)
        assert running.exit_description().startswith("was killed by SIGKILL (out of memory: ")
