"""The native program with musl: one file without libraries, which serves and generates load."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.serving.server_process import PATIENCE_S, Load, spawn

ROOT = Path(__file__).parents[2]
TARGET = "x86_64-unknown-linux-musl"


def is_buildable() -> bool:
    if shutil.which("rustc") is None or shutil.which("musl-gcc") is None:
        return False
    command = ["rustc", "--print", "target-libdir", "--target", TARGET]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return Path(done.stdout.strip()).is_dir()


@pytest.mark.race  # Cargo compiles.
@pytest.mark.skipif(not is_buildable(), reason="needs musl-tools and the target of rustup")
def test_the_static_program_serves_reloads_and_generates_load(tmp_path: Path) -> None:
    # The flags of another linker or another processor would not do.
    environment = {name: text for name, text in os.environ.items() if name != "RUSTFLAGS"}
    build = ["cargo", "build", "--quiet", "--package", "jissoku-cli", "--target", TARGET]
    subprocess.run(build, cwd=ROOT, env=environment, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    program = ROOT / target / TARGET / "debug" / "jissoku"
    assert b"/ld-" not in program.read_bytes()[:4096], "it names no loader"
    (tmp_path / "index.html").write_text("here")
    for driver in ("epoll", "uring"):
        arguments = [str(tmp_path), "--driver", driver, "--listen", "127.0.0.1:0"]
        served = spawn(*arguments, command=[str(program), "serve"])
        try:
            port = int(served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/")[1])
            with Load(port, methods=("GET",)) as load:
                served.reload()
                load.wait_for_answers()
            url = f"http://127.0.0.1:{port}/"
            subprocess.run([program, "load", "-n", "1000", "-c", "8", url], check=True)
            served.process.terminate()
            assert served.process.wait(PATIENCE_S) == 0
        finally:
            served.end()
