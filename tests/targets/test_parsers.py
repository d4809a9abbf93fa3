"""One server with five parsers: its sources are complete, and all parsers agree."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from jissoku.model import UnavailableTarget, Workload
from jissoku.model.updated import updated
from jissoku.targets import catalogue, launch, process
from jissoku.targets.placeholders import APPS, BuildPaths, find_program
from jissoku.targets.prepare import PreparedTarget
from tests.targets.conftest import placed, prepared_or_skipped

ROOT = Path(__file__).parents[2]
APP = APPS / "parsers"
PARSERS = ("http-parser", "llhttp", "picohttpparser", "httparse", "jissoku-http")
REQUESTS = (
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    b"POST /parsed HTTP/1.1\r\nHost: b\r\nContent-Length: 3\r\nX:  y \r\n\r\nxyz"
    b"GET /42 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
)


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_what_it_is_built_from_is_gathered_in_one_folder(tmp_path: Path) -> None:
    (tmp_path / "vendor").mkdir()  # So that nothing is fetched.
    command = [sys.executable, str(APP / "gather.py"), str(tmp_path)]
    stale = tmp_path / "http/src/gone.rs"
    for _ in range(2):
        subprocess.run(command, check=True)
        assert not stale.exists()
        stale.touch()
    stale.unlink()
    crates = ROOT / "crates"
    assert files_of(tmp_path / "http/src") == files_of(crates / "jissoku-http/src")
    assert files_of(tmp_path / "shapes") == files_of(crates / "jissoku-load/shapes")
    assert (tmp_path / "Cargo.lock").read_bytes() == (APP / "Cargo.lock").read_bytes()


def test_the_versions_it_names_are_those_it_is_built_with() -> None:
    said = re.search(r'VERSION: &str = "(.+?)";', (APP / "src/main.rs").read_text(), re.DOTALL)
    assert said is not None
    lock = (APP / "Cargo.lock").read_text()
    for crate in ("picohttpparser-sys", "httparse"):
        found = re.search(rf'name = "{crate}"\nversion = "(.+)"', lock)
        assert found is not None
        assert f"{crate} {found[1]}" in said[1]


@pytest.fixture(scope="module")
def prepared(place: BuildPaths) -> PreparedTarget:
    found = prepared_or_skipped(catalogue.recipes()["parsers"], place)
    if isinstance(found, UnavailableTarget):
        pytest.skip(f"{found.name} is not available here: {found.reason}; {found.install_hint}")
    return found


def answers(prepared: PreparedTarget, parser: str, sizes: int) -> bytes:
    """What comes back until the server closes, the requests sent in pieces of a size."""
    assert prepared.start is not None
    start = updated(prepared.start, command=(*prepared.start.command, "--parser", parser))
    chosen = updated(prepared, start=start)
    with process.start(chosen, placed()) as running:
        launch.wait_until_ready(running, Workload())
        where = (running.address.host, running.address.port)
        with socket.create_connection(where, timeout=10) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for at in range(0, len(REQUESTS), sizes):
                connection.sendall(REQUESTS[at : at + sizes])
            return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.race
@pytest.mark.timeout(300)
@pytest.mark.parametrize("sizes", [1, 7, len(REQUESTS)])
def test_every_parser_answers_alike(prepared: PreparedTarget, sizes: int) -> None:
    found = {parser: answers(prepared, parser, sizes) for parser in PARSERS}
    assert found["http-parser"].count(b"HTTP/1.1 200 OK") == 3
    assert b"POST /parsed\nHost=b\nContent-Length=3\nX=y\n" in found["http-parser"]
    assert set(found.values()) == {found["http-parser"]}


@pytest.mark.race
@pytest.mark.timeout(300)
def test_they_agree_however_the_bytes_are_split(
    prepared: PreparedTarget, place: BuildPaths
) -> None:
    cache, cargo = place.cache / "parsers", find_program("cargo")
    manifest = str(cache / "app/Cargo.toml")
    done = subprocess.run(
        [str(cargo), "test", "--locked", "--quiet", "--manifest-path", manifest,
         "--target-dir", str(cache / "target")],
        env=os.environ | {"PARSERS_SOURCES": str(cache / "app/vendor")},
        capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert prepared.version
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.race
@pytest.mark.timeout(300)
def test_the_bench_prints_every_figure_that_the_experiment_speaks_of(
    prepared: PreparedTarget,
) -> None:
    command = [str(prepared.values["program"]), "bench", "--rounds", "1", "--figures"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    printed = re.findall(r"^([a-z0-9_]+) [0-9.]+$", done.stdout, re.MULTILINE)
    assert len(printed) == len(set(printed)) == 2 * 8 * len(PARSERS)
    asked = re.findall(
        r"benchmark\.(\w+)", (ROOT / "python/jissoku/experiments/parsers.toml").read_text()
    )
    assert asked
    assert set(asked) <= set(printed)
