"""A file of comparisons: read as a whole, a queue for each machine, and resumed."""

import re
from pathlib import Path

import pytest

from jissoku.errors import InputError
from jissoku.fleet import plan as plans
from jissoku.fleet.machines import measure_machines
from jissoku.system import measurement_lock
from tests.fleet.campaigns import Bench, begun, recorded, running, trials
from tests.fleet.conftest import VERSION


@pytest.fixture(autouse=True)
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(measurement_lock.PATH_VARIABLE, str(tmp_path / "lock"))


@pytest.fixture
def benches(keys_folder: Path, tmp_path: Path) -> list[Bench]:
    source = recorded(tmp_path / "source", blocks=3)
    return [Bench(keys_folder, tmp_path / f"bench{number}", source) for number in (1, 2)]


def written(tmp_path: Path, benches: list[Bench], comparisons: str) -> Path:
    machines = ", ".join(f'"{bench.address.text}"' for bench in benches)
    file = tmp_path / "plan.toml"
    file.write_text(f'machines = [{machines}]\nkeys = "{benches[0].keys}"\n{comparisons}')
    return file


TWO = """
[[comparison]]
name = "first"
compare = "a b --for 1m"
[[comparison]]
name = "second"
compare = "a b --path '/files/10k.bin'"
"""


def test_every_machine_runs_every_comparison_once(tmp_path: Path, benches: list[Bench]) -> None:
    out = tmp_path / "run"
    with running(benches):
        found = plans.new_plans(written(tmp_path, benches, TWO), out, VERSION)
        assert [one.request_of(1).path for one in found] == ["/", "/files/10k.bin"]
        assert measure_machines(found, print) == (True, "")
        assert [begun(bench) for bench in benches] == [2, 2]
        assert measure_machines(plans.resumed_plans(out, VERSION), print, is_resumed=True)
        assert [begun(bench) for bench in benches] == [2, 2], "nothing was left to do"
    for name in ("first", "second"):
        for machine in (1, 2):
            assert trials(out / name / f"machine-{machine}") == trials(benches[0].source)
    lines = trials(benches[0].source).count(b"\n")
    assert list(plans.status(out)) == [
        f"{name}: machine {machine}: {lines} trials, finished"
        for name in ("first", "second")
        for machine in (1, 2)
    ]


@pytest.mark.parametrize(
    ("comparisons", "reason"),
    [
        (TWO.replace("second", "first"), "two comparisons are called 'first'"),
        (TWO.replace("second", "../second"), "'../second' is a folder"),
        (TWO.replace("--for 1m", "--fro 1m"), "comparison 'first': No such option '--fro'"),
        (TWO.replace("--for 1m", "--machine h:1"), "machines and keys are keys of the file"),
        (TWO + 'machines = ["h:1"]', "comparison 'second': h:1 is none of its machines"),
        (TWO + "machine = 1", "key `comparison.machine`"),
        (TWO.replace("--for 1m", "--profile"), "--profile: it is for a comparison on one machine"),
    ],
)
def test_what_is_wrong_is_named_before_anything_begins(
    tmp_path: Path, benches: list[Bench], comparisons: str, reason: str
) -> None:
    with running(benches):
        file = written(tmp_path, benches, comparisons)
        with pytest.raises(InputError, match=re.escape(reason)):
            plans.new_plans(file, tmp_path / "run", VERSION)
    assert [begun(bench) for bench in benches] == [0, 0]
