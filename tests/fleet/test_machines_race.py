"""Comparisons that two agents run by themselves, as a user asks for them."""

import json
import signal
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import JISSOKU
from tests.fleet.test_faults import eventually
from tests.fleet.trials import agent_process, free_address, with_entry

WORDS = ("jissoku", "http-server", "--for", "25s", "-R", "500", "-c", "4", "--check-blocks", "0")


@pytest.fixture
def asked(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    def asked(*words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*JISSOKU, "compare", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=tmp_path,
        )

    return asked


@pytest.mark.race
def test_two_machines_and_a_client_that_is_killed(
    keys_folder: Path, tmp_path: Path, asked: Callable[..., subprocess.Popen[str]]
) -> None:
    """Both are one machine: the second one waits until the first has ended."""
    addresses = [free_address(), free_address()]
    run = tmp_path / "run"
    with ExitStack() as held:
        for number, address in enumerate(addresses):
            words = ("--campaigns", str(tmp_path / f"campaigns{number}"))
            held.enter_context(agent_process(address, keys_folder, options=words))
        machines = [word for one in addresses for word in ("--machine", one.text)]
        first = asked(*WORDS, *machines, "--server-keys", str(keys_folder), "--out", str(run))
        lines = run / "machine-1" / "trials.jsonl"
        other = run / "machine-2" / "trials.jsonl"
        eventually(lambda: any(one.exists() and one.stat().st_size for one in (lines, other)))
        first.send_signal(signal.SIGKILL)
        first.communicate(timeout=10)
        before = {one: one.read_bytes() for one in (lines, other) if one.exists()}
        again = asked("--resume", str(run))
        output, _ = again.communicate(timeout=200)
    # On a busy machine three blocks take longer.
    assert again.returncode in {0, 4}, output
    for path, known in before.items():
        assert path.read_bytes().startswith(known)
    found = json.loads((run / "report.json").read_text())
    assert len(found["machines"]) == 2
    assert found["out"] == []
    leases = [
        path for number in (0, 1) for path in tmp_path.glob(f"campaigns{number}/*/*/lease.json")
    ]
    attempts = [path for path in run.glob("machine-*") if (path / "run.json").exists()]
    assert len(attempts) == 2, "each was begun once"
    assert len(leases) == len(list(run.glob("machine-*")))


@pytest.mark.race
def test_an_agent_that_is_killed_ends_its_comparison_and_the_next_one_knows_that(
    keys_folder: Path, tmp_path: Path, asked: Callable[..., subprocess.Popen[str]]
) -> None:
    """Its supervisor ends what it has started; the client waits for the next agent."""
    address, run, campaigns = free_address(), tmp_path / "run", tmp_path / "campaigns"
    options = ("--campaigns", str(campaigns))
    with agent_process(address, keys_folder, options=options) as agent:
        words = ("--machine", address.text, "--server-keys", str(keys_folder), "--out", str(run))
        client = asked(*WORDS, *words)
        copied = run / "machine-1" / "trials.jsonl"
        eventually(lambda: copied.exists() and copied.stat().st_size > 0)
        agent.kill()
        agent.wait(10)
        eventually(lambda: not with_entry(f"JISSOKU_LAB={agent.pid}-"))
    with agent_process(address, keys_folder, options=options):
        output, _ = client.communicate(timeout=100)
        assert client.returncode == 1, output
        assert "its process was killed, or its host restarted" in " ".join(output.split())
        again = asked("--resume", str(run))
        output, _ = again.communicate(timeout=100)
    assert again.returncode in {0, 4}, output
    assert len(list(campaigns.glob("*/*/lease.json"))) == 2
    assert (run / "machine-1-attempt-2" / "run.json").exists()
