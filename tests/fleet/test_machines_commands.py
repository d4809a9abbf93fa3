"""`compare --machine`, `--resume`, `report` and `fleet`, as they are typed."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from jissoku.cli.commands import jissoku
from jissoku.cli.frame import version_line
from jissoku.errors import InputError
from jissoku.fleet.fleet_file import on_fleet, read_fleet, with_addresses
from jissoku.model import updated
from jissoku.request import ComparisonRequest, ExplanationRequest
from jissoku.system import measurement_lock
from tests.fleet.campaigns import ARMS, Bench, begun, recorded, running

Run = Callable[..., Result]


@pytest.fixture
def benches(
    keys_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Bench]]:
    """Three machines, of which the third one has measured too little."""
    monkeypatch.setenv(measurement_lock.PATH_VARIABLE, str(tmp_path / "lock"))
    monkeypatch.chdir(tmp_path)
    made = []
    for number, blocks in enumerate((9, 9, 9, 2), 1):
        source = recorded(tmp_path / f"source{number}", seed=number, blocks=blocks)
        folder = tmp_path / f"bench{number}"
        made.append(Bench(keys_folder, folder, source, version=version_line()))
    with running(made):
        yield made


@pytest.fixture
def run() -> Run:
    def run(*words: str) -> Result:
        return CliRunner().invoke(jissoku, words, standalone_mode=False)

    return run


def written(benches: list[Bench], place: Path) -> Path:
    """The file of a fleet, beside its keys."""
    place.mkdir()
    (place / "fleet.keys").symlink_to(benches[0].keys)
    file = place / "fleet.toml"
    file.write_text(
        "".join(
            f'[[host]]\nname = "host{number}"\naddress = "{bench.address.text}"\n'
            for number, bench in enumerate(benches, 1)
        )
        + '[[bench]]\nname = "rack"\nserver = "host1"\nload = ["host3", "host2"]\n'
    )
    return file


def asked(benches: list[Bench]) -> list[str]:
    machines = [word for bench in benches for word in ("--machine", bench.address.text)]
    return [*ARMS, *machines, "--server-keys", str(benches[0].keys)]


def test_several_machines_are_compared_reported_and_not_measured_again(
    benches: list[Bench], run: Run, tmp_path: Path
) -> None:
    done = run("compare", *asked(benches[:3]), "--out", "run", "--json")
    assert done.return_value == 0, done.output
    (one, *_) = json.loads(done.stdout)["comparisons"]
    assert one["verdict"] == "higher on all machines"
    report = (tmp_path / "run" / "report.html").read_bytes()
    shown = run("report", "run")
    assert shown.return_value == 0
    assert shown.stdout.endswith(f"{one['sentence']}.\n")
    assert (tmp_path / "run" / "report.html").read_bytes() == report
    again = run("compare", "--resume", "run")
    assert again.return_value == 0
    assert [begun(bench) for bench in benches] == [1, 1, 1, 0]
    assert (tmp_path / "run" / "report.html").read_bytes() == report
    for action in ("pull", "status"):
        listed = run("fleet", action, "run")
        assert listed.return_value == 0
        assert [line.rpartition(", ")[2] for line in listed.stdout.splitlines()] == ["finished"] * 3


def test_a_machine_with_too_few_blocks_leaves_it_incomplete(benches: list[Bench], run: Run) -> None:
    done = run("compare", *asked(benches), "--out", "run")
    assert done.return_value == 4, done.output
    assert "incomplete without machine 4" in done.stdout
    assert "2 blocks are too few" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--resume", "run", "a"), "leave out all else"),
        (("--resume", "run", "--out", "other"), "leave out all else"),
        (("--resume", "run"), "run holds no comparison on several machines"),
        (("a", "b", "--machine", "h"), "--machine h: write HOST:PORT"),
        (("a", "b", "--machine", "h:1", "--machine", "h:1"), "is given twice"),
        (("a", "b", "--machine", "h:1", "--server-host", "h:1"), "--server-host: each machine"),
        (("a", "b", "--machine", "h:1", "--fail-if", "cost(a) > cost(b)"), "--fail-if: a bound"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    error = run("compare", *words).exception
    assert isinstance(error, InputError)
    assert reason in str(error)
    assert list(tmp_path.iterdir()) == []


def test_a_plan_is_run_resumed_and_its_state_printed(
    benches: list[Bench], run: Run, tmp_path: Path
) -> None:
    machines = ", ".join(f'"{bench.address.text}"' for bench in benches[:3])
    (tmp_path / "plan.toml").write_text(
        f'machines = [{machines}]\nkeys = "{benches[0].keys}"\n'
        '[[comparison]]\nname = "one"\ncompare = "a b"\n'
    )
    done = run("fleet", "run", "plan.toml", "--out", "plan", "--quiet")
    assert done.return_value == 0, done.output
    assert "one:" in done.stdout
    lines = run("fleet", "status", "plan").stdout.splitlines()
    assert [line.rpartition(", ")[2] for line in lines] == ["finished"] * 3
    assert run("fleet", "resume", "plan", "--quiet").return_value == 0
    assert [begun(bench) for bench in benches] == [1, 1, 1, 0]
    refused = run("fleet", "status", "plan", "--out", "x").exception
    assert isinstance(refused, InputError)


def test_a_file_has_the_hosts_and_keys_of_a_comparison_and_of_a_plan(
    benches: list[Bench], run: Run, tmp_path: Path
) -> None:
    file = written(benches[:3], tmp_path / "fleet")
    done = run("compare", *ARMS, "--fleet", str(file), "--out", "run")
    assert done.return_value == 0, done.output
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'machines = "fleet/fleet.toml"\n'
        '[[comparison]]\nname = "one"\ncompare = "a b"\nmachines = ["host3", "host1"]\n'
    )
    done = run("fleet", "run", str(plan), "--out", "plan", "--quiet")
    assert done.return_value == 0, done.output
    assert [begun(bench) for bench in benches] == [2, 1, 2, 0]
    plan.write_text('keys = "x"\n' + plan.read_text())
    refused = run("fleet", "run", str(plan), "--out", "other").exception
    assert "fleet/fleet.toml has the keys: leave out `keys`" in str(refused)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--fleet", "fleet/fleet.toml", "--machine", "h:1"), "--fleet: the file names hosts"),
        (("--bench", "rack", "--server-keys", "x"), "--bench rack: the file names hosts and keys"),
        (("--bench", "rack"), "there is no fleet.toml: `jissoku fleet init HOST...` writes it"),
        (
            ("--fleet", "fleet/fleet.toml", "--bench", "other"),
            "--bench other: fleet/fleet.toml has no such bench; there are rack",
        ),
    ],
)
def test_a_file_or_a_bench_that_does_not_fit_is_refused(
    benches: list[Bench], run: Run, tmp_path: Path, words: tuple[str, ...], reason: str
) -> None:
    written(benches, tmp_path / "fleet")
    error = run("compare", *ARMS, *words).exception
    assert isinstance(error, InputError)
    assert reason in str(error)


def test_a_bench_is_its_host_of_servers_and_its_load_hosts(
    benches: list[Bench], tmp_path: Path
) -> None:
    file = written(benches, tmp_path / "fleet")
    found = on_fleet(ComparisonRequest(arms=ARMS), file, "rack")
    addresses = [bench.address.text for bench in benches]
    assert found == ComparisonRequest(
        arms=ARMS,
        server_host=addresses[0],
        load_host=(addresses[2], addresses[1]),
        server_keys=str(tmp_path / "fleet" / "fleet.keys"),
    )
    fleet = read_fleet(file)
    assert [fleet.load_to(host) for host in fleet.hosts[:3]] == [(), *[("127.0.0.1",)] * 2]


def test_a_host_of_the_file_is_named_in_place_of_its_address_by_every_verb(
    benches: list[Bench], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(written(benches, tmp_path / "fleet").parent)
    addresses = [bench.address.text for bench in benches]
    keys = str(tmp_path / "fleet" / "fleet.keys")
    asked = ExplanationRequest(target="nginx", server_host="host2")
    assert with_addresses(asked) == updated(asked, server_host=addresses[1], server_keys=keys)
    here = ExplanationRequest(target="nginx")
    assert with_addresses(here) == here
    both = ComparisonRequest(arms=ARMS, server_host="host1", load_host=("host3", "h:1"))
    assert on_fleet(both, None, "") == updated(
        both, server_host=addresses[0], load_host=(addresses[2], "h:1"), server_keys=keys
    )
    some = ComparisonRequest(arms=ARMS, machine=("host3", "host1"), server_keys="own")
    assert on_fleet(some, None, "") == updated(some, machine=(addresses[2], addresses[0]))
    with pytest.raises(InputError, match=r"--server-host host9: write HOST:PORT, or a host of"):
        with_addresses(updated(asked, server_host="host9"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"--server-host host2: .* fleet.toml, which is not in"):
        with_addresses(asked)
