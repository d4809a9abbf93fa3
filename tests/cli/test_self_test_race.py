"""`jissoku self-test` on this machine, interrupted, because a complete run takes minutes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jissoku import records

pytestmark = [pytest.mark.race, pytest.mark.timeout(240)]


def test_ctrl_c_keeps_the_campaigns_that_were_finished(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with subprocess.Popen(
        [sys.executable, "-m", "jissoku", "self-test", "--loads", "heavy"],
        cwd=tmp_path,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        text = []
        for line in process.stderr:
            text.append(line)
            if line.startswith("like arms, 1 of 20"):
                break
        os.killpg(process.pid, signal.SIGINT)
        shown = process.stdout.read()
        assert process.wait(timeout=60) == 130
    assert any("campaigns of 9 blocks: about" in line for line in text)
    assert "A/A, paired, heavy load" in shown
    assert "injected" not in shown
    assert "Not kept for later verdicts" in shown
    assert not (cache / "jissoku" / "noise.json").exists()
    (folder,) = (tmp_path / "runs").iterdir()
    first, second = (folder / "like-arms-heavy" / name for name in ("00", "01"))
    assert len(records.read(first)[1]) >= 9
    assert records.unfinished_reason(first) == ""
    # The interruption was in the second campaign, or before its start.
    reason = records.unfinished_reason(second)
    assert reason.startswith("it was interrupted") or not second.exists()
