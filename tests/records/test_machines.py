"""The copy of a record that another host writes: whole lines, each once and in order."""

import hashlib
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from jissoku.errors import InputError, RecordError
from jissoku.records.machines import PulledRun
from tests.inference import factories

RUN = factories.sliced(("a", "b"))
LINES = tuple(
    msgspec.json.encode(trial) + b"\n"
    for trial in factories.trials(
        RUN,
        {name: factories.TrueValues(cost_ns=10_000.0) for name in ("a", "b")},
        blocks=3,
        check_blocks=0,
        solo_blocks=1,
    )
)
WHOLE = b"".join(LINES)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 300)), max_size=8),
)
def test_however_it_is_cut_the_copy_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[tuple[int, int]]
) -> None:
    """After some lines it ends within the next one, as a killed process leaves it."""
    folder = tmp_path_factory.mktemp("copy")
    for lines, torn in cuts:
        with closing(PulledRun(folder)) as copy:
            copy.append(b"".join(LINES[copy.lines : copy.lines + lines]))
        rest = WHOLE[copy.offset :]
        with (folder / "trials.jsonl").open("ab") as file:
            file.write(rest[: min(torn, max(0, rest.find(b"\n")))])
    with closing(PulledRun(folder)) as copy:
        copy.append(WHOLE[copy.offset :])
        copy.replace_header(msgspec.json.encode(RUN))
        copy.finish(hashlib.sha256(WHOLE).hexdigest(), "")
    assert (folder / "trials.jsonl").read_bytes() == WHOLE
    assert not (folder / "unfinished.txt").exists()


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (LINES[1], "trial 1 has come in place of trial 0"),
        (LINES[0] + LINES[0], "trial 0 has come in place of trial 1"),
        (LINES[0][:-1], "line 0 of trials.jsonl has no end"),
        (b"{}\n", "trials.jsonl:1: "),
    ],
)
def test_what_does_not_follow_is_refused(tmp_path: Path, lines: bytes, reason: str) -> None:
    with closing(PulledRun(tmp_path)) as copy:
        with pytest.raises(InputError, match=reason):
            copy.append(lines)
        assert (copy.offset, copy.lines) == (0, 0)
        copy.append(LINES[0])
    assert (tmp_path / "trials.jsonl").read_bytes() == LINES[0]


def test_another_record_than_the_one_that_was_measured_is_refused(tmp_path: Path) -> None:
    with closing(PulledRun(tmp_path)) as copy:
        copy.append(LINES[0])
        with pytest.raises(InputError, match=r"trials\.jsonl is another one than that of its"):
            copy.finish(hashlib.sha256(WHOLE).hexdigest(), "")
    assert (tmp_path / "unfinished.txt").exists()


def test_two_processes_do_not_copy_the_same_record(tmp_path: Path) -> None:
    """As two that resume one run: what one has written is not cut by the other."""
    with closing(PulledRun(tmp_path)) as copy:
        copy.append(LINES[0])
        with pytest.raises(RecordError, match="another process copies this record"):
            PulledRun(tmp_path)
        copy.append(LINES[1])
    with closing(PulledRun(tmp_path)) as copy:
        assert copy.lines == 2
