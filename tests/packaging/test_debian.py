"""The Debian package: what is in it, and a server that it installs, upgrades and removes."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.packaging.activation import activated
from tests.serving.server_process import PATIENCE_S, Load, ask

ROOT = Path(__file__).parents[2]
TOOLS = ("cargo", "dpkg", "dpkg-deb", "objdump", "strip")

pytestmark = [
    pytest.mark.race,  # Cargo compiles.
    pytest.mark.skipif(not all(map(shutil.which, TOOLS)), reason=f"needs {', '.join(TOOLS)}"),
]


def run(*command: str | Path, **variables: str) -> str:
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def binary() -> Path:
    run("cargo", "build", "--quiet", "--package", "jissoku-cli")
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    return ROOT / target / "debug" / "jissoku"


def package(binary: Path, folder: Path, version: str) -> Path:
    run("packaging/debian/build", binary, folder, JISSOKU_DEB_VERSION=version)
    (found,) = folder.glob(f"jissoku_{version}_*.deb")
    return found


def dpkg(root: Path, *arguments: str | Path) -> None:
    """Changes a system in a folder: its scripts run outside of it, and no library is there."""
    (root / "var" / "lib" / "dpkg" / "updates").mkdir(parents=True, exist_ok=True)
    for name in ("info", "triggers"):
        (root / "var" / "lib" / "dpkg" / name).mkdir(exist_ok=True)
    for name in ("status", "available"):
        (root / "var" / "lib" / "dpkg" / name).touch()
    forced = ["--force-not-root", "--force-script-chrootless", "--force-depends"]
    run("dpkg", f"--root={root}", "--log=/dev/null", *forced, *arguments)


def test_a_package_is_installed_upgraded_and_removed(binary: Path, tmp_path: Path) -> None:
    old, new = (package(binary, tmp_path, version) for version in ("1.0", "1.1"))
    names = run("dpkg-deb", "--contents", old)
    assert "root/root" in names.splitlines()[0]
    assert names.startswith("drwxr-xr-x"), "the folder is / when it is installed"
    for name in ("man1/jissoku-serve.1.gz", "completions/jissoku", "jissoku.socket"):
        assert name in names
    root = tmp_path / "root"
    dpkg(root, "--install", old)
    config = root / "etc" / "jissoku" / "serve.toml"
    config.write_text(f"folder = '{tmp_path / 'www'}'\nstop-window = '0s'\n")
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "index.html").write_text("here")
    unit = (root / "lib" / "systemd" / "system" / "jissoku.service").read_text()
    (line,) = (line for line in unit.splitlines() if line.startswith("ExecStart="))
    command = [
        word if not word.startswith("/") else f"{root}{word}"
        for word in line.partition("=")[2].split()
    ]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with activated({"http": listener}, command) as served:
            assert ask(port) == (200, b"here")
            with Load(port, methods=("GET",)) as load:
                served.reload()
                load.wait_for_answers()
                dpkg(root, "--install", new)
                # What postinst asks systemd for.
                served.replace()
                assert served.process.wait(PATIENCE_S) == 0
                load.wait_for_answers()
            assert "here" not in config.read_text()
            assert "www" in config.read_text(), "the configuration is the administrator's"
    dpkg(root, "--purge", "jissoku")
    left = [path for path in root.rglob("*") if path.is_file() and "jissoku" in path.parts]
    assert left == []
    assert not (root / "usr" / "bin" / "jissoku").exists()
