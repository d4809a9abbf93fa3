import dataclasses
from pathlib import Path

import pytest

from jissoku.errors import InputError
from jissoku.model import (
    Arm,
    Cores,
    Failure,
    Kind,
    Machine,
    Mode,
    Origin,
    Run,
    Stage,
    Trial,
    Workload,
)
from jissoku.records.store import TRIALS_FILE, Store, read

ARM = Arm(name="a", target="a", origin=Origin.RECIPE, version="1", command=("a", "{port}"))
MACHINE = Machine(
    cpu_model="x", cores=2, smt=False, memory_bytes=1, kernel="6", hypervisor="none seen",
    governor="performance", turbo="off", clocksource="tsc", python="3.11",
)  # fmt: skip
RUN = Run(
    jissoku="jissoku 0",
    started_utc="2026-01-01T00:00:00+00:00",
    seed=1,
    mode=Mode.QUICK,
    reference="a",
    baseline="a",
    floor="",
    arms=(ARM,),
    workload=Workload(headers=(("x", "y"),), body=b"\x00\xff"),
    machine=MACHINE,
    cores=Cores(server=(0,), stopwatch=(1,)),
)
TRIAL = Trial(
    index=0,
    block=0,
    kind=Kind.SOLO_RATE,
    arms=("a",),
    workload=RUN.workload,
    window_ns=1,
    failure=Failure(stage=Stage.START, arm="a", reason="ended with code 3", stderr="oh\nno"),
)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    second = dataclasses.replace(TRIAL, index=1)
    with Store(tmp_path / "run", RUN) as store:
        store.add(TRIAL)
        assert read(tmp_path / "run") == (RUN, (TRIAL,)), "a trial is on disk when add returns"
        store.add(second)
    assert read(tmp_path / "run") == (RUN, (TRIAL, second))


def test_a_line_that_was_never_finished_is_left_out(tmp_path: Path) -> None:
    with Store(tmp_path / "run", RUN) as store:
        store.add(TRIAL)
    with (tmp_path / "run" / TRIALS_FILE).open("ab") as file:
        file.write(b'{"schema": "jissoku.trial/1", "ind')
    assert read(tmp_path / "run") == (RUN, (TRIAL,))


def test_a_run_is_never_overwritten(tmp_path: Path) -> None:
    with Store(tmp_path, RUN), pytest.raises(InputError, match="holds a run already"):
        Store(tmp_path, RUN)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"nonsense\n", r"trials\.jsonl:1: not a record"),
        (b"[]\n", r"trials\.jsonl:1: not a record"),
        (b'{"schema": "jissoku.trial/99"}\n', r"trials\.jsonl:1: schema 'jissoku\.trial/99'"),
        (b'{"schema": "jissoku.trial/1", "index": "x"}\n', r"trials\.jsonl:1: not a record.*index"),
    ],
)
def test_a_bad_record_is_named_by_file_and_line(
    tmp_path: Path, line: bytes, complaint: str
) -> None:
    with Store(tmp_path, RUN):
        pass
    (tmp_path / TRIALS_FILE).write_bytes(line)
    with pytest.raises(InputError, match=complaint):
        read(tmp_path)


def test_a_folder_without_a_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run"):
        read(tmp_path)
