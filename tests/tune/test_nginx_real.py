"""Realistic configurations: includes, types, several servers, an upstream, odd quotes.

They are run as they are and with every knob switched; nothing is measured.
"""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from jissoku.measure import knob_changes
from jissoku.model import UnavailableTarget, Workload
from jissoku.system.address import free_port
from jissoku.system.cores import available_cores
from jissoku.targets import catalogue, launch, process, response
from jissoku.targets.placeholders import BuildPaths
from jissoku.targets.prepare import prepare
from jissoku.targets.process import LaunchOptions

FOLDER = Path(__file__).parent / "nginx"
ASKED = {
    "blog": "/a.txt",
    "hop": "/static",
    "proxy": "/static",
    "several": "/a.txt",
    "split": "/a.txt",
}
KNOBS = catalogue.recipes()["nginx"].knob

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]


@pytest.mark.parametrize(("name", "path"), ASKED.items())
def test_it_answers_the_same_with_every_knob(name: str, path: str, tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    (tmp_path / "a.txt").write_text("Hello, World!")
    for file in tmp_path.rglob("*"):
        if file.is_file():
            file.write_text(file.read_text().replace("@ROOT@", str(tmp_path)))
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    base = prepare(catalogue.recipes()["nginx"], BuildPaths(cache=tmp_path, files=tmp_path))
    assert not isinstance(base, UnavailableTarget)
    listen = "8080" if name == "split" else ""
    file = tmp_path / name / "nginx.conf"
    tuned = knob_changes.target_of_configuration(
        file, base, KNOBS, prefix=str(tmp_path), listen=listen
    )
    names = tuple(knob.name for knob in tuned.knobs)
    bodies = []
    for switched in ((), names):
        rng = random.Random(str((name, switched)))
        placement = LaunchOptions(port=free_port(rng), cores=available_cores(), workers=1, seed=1)
        with process.start(tuned.prepared(switched), placement) as running:
            found: response.TargetResponse = launch.wait_until_ready(running, Workload(path=path))
            bodies.append((found.status, found.body))
    assert bodies[0] == bodies[1]
    assert bodies[0][0] == 200
    assert {file: file.read_bytes() for file in before} == before
    _must_apply(tuned.diff(names), tmp_path)


def _must_apply(diff: str, folder: Path) -> None:
    program = shutil.which("patch")
    if program is None:
        pytest.skip("there is no patch(1) here: the diff was not applied")
    done = subprocess.run(
        [program, "-s", "-p0", "-d", "/"],
        input=diff,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "keepalive_requests 100000;" in "".join(
        file.read_text() for file in folder.rglob("*.conf")
    )
