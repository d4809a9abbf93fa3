"""The commit in `jissoku --version`: of the repository; an archive of the sources has none."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CRATE = Path(__file__).parents[2] / "crates" / "jissoku-cli"


def git(*arguments: str, folder: Path) -> str:
    command = ["git", "-c", "user.name=T", "-c", "user.email=t@localhost", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


RUSTC = shutil.which("rustc")


@pytest.mark.slow
@pytest.mark.skipif(RUSTC is None, reason="needs rustc")
def test_the_commit_of_a_build(tmp_path: Path) -> None:
    program = tmp_path / "build"
    assert RUSTC is not None
    subprocess.run([RUSTC, "--edition", "2024", CRATE / "build.rs", "-o", program], check=True)
    printed = ""

    def build(root: Path) -> str:
        nonlocal printed
        environment = os.environ | {"PROFILE": "release"}
        folder = root / "crates" / "jissoku-cli"
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [program], cwd=folder, env=environment, capture_output=True, text=True, check=True
        )
        printed = done.stdout
        (line,) = (text for text in printed.splitlines() if "JISSOKU_BUILD" in text)
        return line.partition("JISSOKU_BUILD=")[2]

    archive = "release, no commit: built from a source archive"
    assert build(tmp_path / "unpacked") == archive

    repository = tmp_path / "repository"
    (repository / "crates").mkdir(parents=True)
    manifest = repository / "Cargo.toml"
    manifest.write_text("[workspace]\n")
    git("init", "--quiet", folder=repository)
    git("add", ".", folder=repository)
    git("commit", "--quiet", "--message", "one", folder=repository)
    commit = git("rev-parse", "--short=10", "HEAD", folder=repository)
    index = repository / ".git" / "index"
    before = index.stat()
    assert build(repository) == f"release, {commit}"
    assert f"rerun-if-changed={repository}/.git/logs/HEAD" in printed
    assert "index" not in printed, "reading the state may write it, and each build would link again"
    after = index.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    manifest.write_text("[workspace]\n# changed\n")
    assert build(repository) == f"release, {commit}, dirty"
    assert build(repository / "vendor" / "jissoku") == archive, "in another repository"
