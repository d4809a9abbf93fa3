import json
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jissoku.errors import InputError, JissokuError
from jissoku.model import (
    FULL_LOAD,
    Arm,
    ArmMeasurement,
    Capacity,
    CapacityStep,
    CheckOutcome,
    CoreAssignment,
    Failure,
    Latency,
    Load,
    LoadLevel,
    Machine,
    MachineConditions,
    Method,
    Mode,
    Origin,
    Run,
    Trial,
    TrialKind,
    TrialStage,
    Workload,
)
from jissoku.model.trial import FailedCheck
from jissoku.model.updated import updated
from jissoku.records.run_folder import (
    RUN_FILE,
    TRIALS_FILE,
    UNFINISHED_FILE,
    RunWriter,
    check_new,
    read,
    run_key,
    trials_sha256,
    unfinished_reason,
)
from tests.compress_records import replace_by_compressed

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
    cores=CoreAssignment(server=(0,), generator=(1,)),
)
TRIAL = Trial(
    index=0,
    block=0,
    kind=TrialKind.CLOSED_LOOP,
    arms=("a",),
    workload=RUN.workload,
    window_ns=1,
    failure=Failure(stage=TrialStage.START, arm="a", reason="ended with code 3", stderr="oh\nno"),
)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    second = updated(TRIAL, index=1)
    with RunWriter(tmp_path / "run", RUN) as store:
        store.add(TRIAL)
        assert read(tmp_path / "run") == (RUN, (TRIAL,)), "a trial is on disk when add returns"
        store.add(second)
    assert read(tmp_path / "run") == (RUN, (TRIAL, second))


def test_only_the_record_leaves_out_what_identifies_the_machine(tmp_path: Path) -> None:
    """A trial keeps the paths that its user knows, as a terminal shows them."""
    assert TRIAL.failure is not None
    place = f"{sys.prefix}/bin/server"
    failure = updated(TRIAL.failure, reason=f"{place} is gone", stderr=f"in {place}")
    steps = (CapacityStep(rate_rps=7, is_met=False, reason=f"no answer of {place}"),)
    capacity = Capacity(objective="p99<10ms", rate_rps=None, steps=steps)
    trial = updated(TRIAL, failure=failure, capacity=capacity)
    with RunWriter(tmp_path / "run", RUN) as store:
        store.add(trial)
    _, (kept,) = read(tmp_path / "run")
    assert trial.failure == failure
    assert kept.failure is not None
    assert kept.capacity is not None
    assert kept.failure.reason == "PREFIX/bin/server is gone"
    assert kept.failure.stderr == "in PREFIX/bin/server"
    assert kept.capacity.steps[0].reason == "no answer of PREFIX/bin/server"


def test_a_compressed_run_is_the_same_run(tmp_path: Path) -> None:
    with RunWriter(tmp_path, RUN) as store:
        store.add(TRIAL)
    key, digest = run_key(tmp_path), trials_sha256(tmp_path)
    for path in [tmp_path / RUN_FILE, tmp_path / TRIALS_FILE]:
        replace_by_compressed(path, path.read_bytes())
    assert read(tmp_path) == (RUN, (TRIAL,))
    assert (run_key(tmp_path), trials_sha256(tmp_path)) == (key, digest)
    assert unfinished_reason(tmp_path) == ""
    with pytest.raises(InputError, match="holds a run already"):
        check_new(tmp_path)
    place = tmp_path / f"{TRIALS_FILE}.gz"
    place.write_bytes(place.read_bytes()[:-9])
    assert unfinished_reason(tmp_path) == "trials.jsonl is damaged, and later trials are missing"
    with pytest.raises(InputError, match=r"trials\.jsonl\.gz is damaged: "):
        read(tmp_path)


def test_the_body_of_requests_stands_in_the_header_only(tmp_path: Path) -> None:
    run = updated(RUN, workload=updated(RUN.workload, body=b"x" * 10_000))
    same = updated(TRIAL, workload=updated(run.workload, rate_rps=7))
    other = updated(TRIAL, index=1, workload=updated(run.workload, body=b"y"))
    with RunWriter(tmp_path, run) as store:
        store.add(same)
        store.add(other)
    assert read(tmp_path) == (run, (same, other))
    assert (tmp_path / TRIALS_FILE).stat().st_size < 5_000


def test_a_line_that_was_never_finished_is_left_out(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run", RUN) as store:
        store.add(TRIAL)
    with (tmp_path / "run" / TRIALS_FILE).open("ab") as file:
        file.write(b'{"schema": "jissoku.trial/2", "ind')
    assert read(tmp_path / "run") == (RUN, (TRIAL,))


def test_a_run_is_never_overwritten(tmp_path: Path) -> None:
    with RunWriter(tmp_path, RUN), pytest.raises(InputError, match="holds a run already"):
        RunWriter(tmp_path, RUN)


@pytest.mark.parametrize("folder", [Path("/proc/nowhere/run"), Path("/dev/null/run")])
def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_measured(
    folder: Path,
) -> None:
    with pytest.raises(InputError, match=rf"^{folder} cannot be written: "):
        check_new(folder)


def test_asking_whether_a_folder_can_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    check_new(tmp_path / "a" / "b")
    assert not (tmp_path / "a").exists()
    check_new(tmp_path)
    assert tmp_path.is_dir()


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"nonsense\n", r"trials\.jsonl:1: not a record"),
        (b"[]\n", r"trials\.jsonl:1: not a record"),
        (b'{"schema": "jissoku.trial/99"}\n', r"trials\.jsonl:1: schema 'jissoku\.trial/99'"),
        (b'{"schema": "jissoku.trial/2", "index": "x"}\n', r"trials\.jsonl:1: not a record.*index"),
    ],
)
def test_a_bad_record_is_named_by_file_and_line(
    tmp_path: Path, line: bytes, complaint: str
) -> None:
    with RunWriter(tmp_path, RUN):
        pass
    (tmp_path / TRIALS_FILE).write_bytes(line)
    with pytest.raises(InputError, match=complaint):
        read(tmp_path)


def test_a_folder_without_a_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run"):
        read(tmp_path)


def test_a_run_that_ends_well_leaves_no_note(tmp_path: Path) -> None:
    with RunWriter(tmp_path, RUN):
        assert "still being measured, or its process was killed" in unfinished_reason(tmp_path)
    assert unfinished_reason(tmp_path) == ""
    assert not (tmp_path / UNFINISHED_FILE).exists()


def test_a_finished_run_whose_trials_were_cut_off_says_so(tmp_path: Path) -> None:
    with RunWriter(tmp_path, RUN):
        pass
    (tmp_path / TRIALS_FILE).write_bytes(b'{"schema": "jissoku.tri')
    assert "trials.jsonl ends within a line" in unfinished_reason(tmp_path)
    assert read(tmp_path)[1] == ()


def test_a_finished_run_without_trials_says_so(tmp_path: Path) -> None:
    with RunWriter(tmp_path, RUN):
        pass
    (tmp_path / TRIALS_FILE).unlink()
    assert unfinished_reason(tmp_path) == "trials.jsonl cannot be read: No such file or directory"


def test_a_folder_that_is_no_run_is_not_unfinished(tmp_path: Path) -> None:
    assert unfinished_reason(tmp_path) == ""


def test_a_run_that_ends_early_says_why(tmp_path: Path) -> None:
    with RunWriter(tmp_path, RUN) as store:
        store.stop_early("it was interrupted")
    assert unfinished_reason(tmp_path) == "it was interrupted"


def test_an_error_is_named_without_its_message(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="secret"), RunWriter(tmp_path, RUN):
        raise ValueError("/home/secret")
    assert unfinished_reason(tmp_path) == "it ended with an error (ValueError)"


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Limits the size of files, which ends a write as a full disk does: in its midst.

    The limit is the whole process's, and pytest's output may go to a file: nothing but the code
    under test may run within.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Else a module that is imported within would leave half of its bytecode for the next program.
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_trial_without_room_leaves_those_before_it(tmp_path: Path) -> None:
    second = updated(TRIAL, index=1)

    def measure() -> None:
        with RunWriter(tmp_path, RUN) as store:
            store.add(TRIAL)
            with file_size_limit((tmp_path / TRIALS_FILE).stat().st_size + 10):
                store.add(second)

    with pytest.raises(
        JissokuError, match=r"trial 1 .*: File too large\. All trials before it are"
    ):
        measure()
    assert read(tmp_path) == (RUN, (TRIAL,))
    assert (tmp_path / TRIALS_FILE).read_bytes().endswith(b"\n"), "the torn line is gone"
    assert unfinished_reason(tmp_path) == "its records could not be written: File too large"


def test_a_folder_without_room_can_be_used_later(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match="cannot be written: File too large"),
        file_size_limit(10),
    ):
        RunWriter(tmp_path, RUN)
    with RunWriter(tmp_path, RUN):
        pass


SLICED_MEASUREMENT = ArmMeasurement(
    arm="a",
    requests=1_000,
    errors={"body": 0},
    duration_ns=3_000_000_000,
    cpu_ns=12_000_000,
    cpu_user_fraction=None,
    rate_rps_offered=1_000.0,
    lag_ns_p99=2_000,
    latency_ns=Latency(p50=1, p90=2, p99=3, p999=4, max=5, mean=2, min=1),
    histogram="",
    per_second=(334, 333, 333),
    rss_bytes_peak=None,
    connections_opened=4,
    bytes_received=99,
    active_duration_ns=1_000_000_000,
    slice_cpu_ns=(4_000_000, 6_000_000),
    idle_cpu_ns_per_s=20_000,
    warmup_requests=15_000,
)
SLICED_RUN = updated(
    RUN,
    method=Method.TIME_SLICED,
    method_reason="the arms run different programs",
    loads=(Load(rate_rps=1_000, level=LoadLevel.LIGHT), FULL_LOAD),
    slice_ns=50_000_000,
    check_slice_ns=100_000_000,
    objective="p99<10ms",
    noise_floor=0.012,
)
SLICED = updated(
    TRIAL,
    kind=TrialKind.TIME_SLICED,
    measurements=(SLICED_MEASUREMENT,),
    conditions=MachineConditions(
        generator_busy_fraction=1.0, generator_busy_polls=True, longest_stall_ns=9_000
    ),
    failure=None,
    failed_checks=(FailedCheck(name="steal", outcome=CheckOutcome.WARNING, message="at wake-ups"),),
    slice_ns=50_000_000,
    start_index=3,
)
SEARCHED = updated(
    TRIAL,
    kind=TrialKind.CAPACITY,
    failure=None,
    capacity=Capacity(
        objective="p99<10ms",
        rate_rps=80,
        steps=(
            CapacityStep(rate_rps=80, is_met=True),
            CapacityStep(rate_rps=88, is_met=False, reason="p99 is 12 ms"),
        ),
    ),
)


@pytest.mark.parametrize("trial", [SLICED, SEARCHED], ids=lambda trial: str(trial.kind))
def test_turns_loads_and_searches_are_read_back(tmp_path: Path, trial: Trial) -> None:
    with RunWriter(tmp_path, SLICED_RUN) as store:
        store.add(trial)
    assert read(tmp_path) == (SLICED_RUN, (trial,))


def test_a_header_can_be_completed_once_the_pilot_is_over(tmp_path: Path) -> None:
    with RunWriter(tmp_path, RUN) as store:
        store.add(TRIAL)
        assert store.update(SLICED_RUN) == SLICED_RUN
        assert read(tmp_path) == (SLICED_RUN, (TRIAL,))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.json", TRIALS_FILE]


def test_a_record_without_the_newer_fields_is_read(tmp_path: Path) -> None:
    """Records older than time slices, loads and capacities have none of these fields."""
    with RunWriter(tmp_path, RUN) as store:
        store.add(updated(SLICED, kind=TrialKind.PAIRED))
    newer = {
        "run.json": ("method", "method_reason", "loads", "slice_ns", "check_slice_ns", "objective",
                     "noise_floor"),
        TRIALS_FILE: ("slice_ns", "start_index", "capacity"),
    }  # fmt: skip
    for name, fields in newer.items():
        record = json.loads((tmp_path / name).read_text())
        for field in fields:
            del record[field]
        for measurement in record.get("measurements", ()):
            for field in ("active_duration_ns", "slice_cpu_ns", "idle_cpu_ns_per_s"):
                del measurement[field]
        (tmp_path / name).write_text(json.dumps(record) + "\n")
    run, (trial,) = read(tmp_path)
    assert (run.method, run.loads) == (Method.PAIRED, ())
    assert (trial.slice_ns, trial.start_index, trial.measurements[0].slice_cpu_ns) == (
        None,
        None,
        (),
    )
