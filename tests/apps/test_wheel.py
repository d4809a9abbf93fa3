"""The wheel, installed where there is no Rust, and of other packages only what it requires."""

import os
import re
import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import click
import pytest

from jissoku import _native
from tests.apps.conftest import port_of
from tests.serving.server_process import PATIENCE_S, Served, ask
from tests.training.__main__ import COUNTS

REPOSITORY = Path(__file__).parents[2]

SOURCE = """
import jissoku
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [jissoku.__file__.encode()]
"""


def run(*command: str | Path, folder: Path, **environment: str) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# It links a release build, which takes five minutes on two cores.
@pytest.mark.timeout(900)
@pytest.mark.race
def test_an_installed_wheel_serves_an_application(tmp_path: Path) -> None:
    maturin = Path(sys.executable).with_name("maturin")
    # The profile of the tested build, of which almost everything is there.
    profile = _native.__build__.partition(",")[0]
    build = ["build", "--profile", {"debug": "dev"}.get(profile, profile), "--out", str(tmp_path)]
    # With other flags than those of `make build` the compiler would begin anew.
    flags = {"RUSTFLAGS": f"-Cprofile-use={COUNTS}"} if profile == "release" else {}
    run(maturin, *build, "--interpreter", sys.executable, folder=REPOSITORY, **flags)
    (wheel,) = tmp_path.glob("*.whl")
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert re.fullmatch(rf"jissoku-[\d.]+-{version}-{version}-[\w.]+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        requires = message_from_bytes(archive.read(metadata)).get_all("Requires-Dist", [])
    assert any(name.startswith("jissoku/_native.") for name in names)
    assert [line for line in requires if "extra ==" not in line] == ["click>=8.1"]
    run(sys.executable, "-m", "venv", "new", folder=tmp_path)
    programs = tmp_path / "new" / "bin"
    install = ["install", "--quiet", "--no-index", "--no-deps", str(wheel)]
    run(programs / "pip", *install, folder=tmp_path)
    (packages,) = (tmp_path / "new" / "lib").glob("python*/site-packages")
    (packages / "click").symlink_to(Path(click.__file__).parent)
    for arguments in (["--version"], ["--help"], ["load", "--help"]):
        run(programs / "jissoku", *arguments, folder=tmp_path)
    (tmp_path / "there.py").write_text(SOURCE)
    process = subprocess.Popen(
        [programs / "jissoku", "serve", "there:app", "--listen", "127.0.0.1:0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": str(programs), "HOME": str(tmp_path)},
    )
    served = Served(process)
    try:
        status, body = ask(port_of(served))
        assert status == 200
        assert Path(os.fsdecode(body)).is_relative_to(tmp_path / "new")
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    finally:
        served.end()
