"""A command with a released package: a wheel, or a version of the package index."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from jissoku.errors import InputError, TargetError
from jissoku.targets.command import from_release, is_release
from jissoku.targets.placeholders import BuildPaths, fill_text
from tests.conftest import Run

pytestmark = pytest.mark.slow

COMMAND = f"base={sys.executable} -m tried {{port}}"


def wheel(folder: Path, says: str) -> Path:
    """A package `tried` with one module and one program, both of which print a text."""
    info = "tried-1.0.dist-info"
    files = {
        "tried.py": f"def main():\n    print({says!r})\nif __name__ == '__main__':\n    main()\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: tried\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\ntried = tried:main\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in files)
    folder.mkdir(exist_ok=True)
    path = folder / "tried-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_a_release_is_a_wheel_or_an_exact_version() -> None:
    assert is_release("dist/app-1.0-py3-none-any.whl")
    assert is_release("granian==2.7.1")
    for ref in ("main", "v1.2", "HEAD~3", "app>=1", "--index-url==x", "a==b c"):
        assert not is_release(ref)


def test_the_command_finds_the_release_first(tmp_path: Path) -> None:
    """The second wheel has the first one's path, and another content."""
    place = BuildPaths(cache=tmp_path / "cache", files=tmp_path)
    (tmp_path / "tried.py").write_text("print('of the working directory')\n")
    arms = []
    for says in ("one", "two"):
        found = from_release(COMMAND, str(wheel(tmp_path, says)), place)
        assert found.start is not None
        environment = {
            name: fill_text(text, found.values) for name, text in found.start.environment.items()
        }
        for words in ([sys.executable, "-m", "tried"], ["tried"]):
            done = subprocess.run(
                words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
            )
            assert done.stdout == f"{says}\n"
        arms.append(found.arm())
    first, second = arms
    assert first.version.startswith("tried-1.0-py3-none-any.whl, sha256 ")
    assert str(tmp_path) not in "".join([first.version, *first.command])
    assert first.source_sha256 != second.source_sha256


def test_what_cannot_be_installed_is_named(tmp_path: Path, run: Run) -> None:
    place = BuildPaths(cache=tmp_path / "cache", files=tmp_path)
    with pytest.raises(InputError, match="there is no such wheel"):
        from_release(COMMAND, "nowhere.whl", place)
    broken = tmp_path / "tried-1.0-py3-none-any.whl"
    broken.write_bytes(b"no archive")
    with pytest.raises(TargetError, match="cannot be installed") as error:
        from_release(COMMAND, str(broken), place)
    assert error.value.stderr
    done = run(["compare", "--cmd", "head=cat {port}", "--baseline", "nowhere.whl"], tmp_path)
    assert done.returncode == 2
    assert "there is no such wheel" in done.stderr
