import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from jissoku.errors import TargetError
from jissoku.model import BuildStep, Origin, Recipe, UnavailableTarget, VersionQuery
from jissoku.model.updated import updated
from jissoku.targets import catalogue
from jissoku.targets.placeholders import APPS, BuildPaths, find_program
from jissoku.targets.prepare import PreparedTarget, missing_requirement, prepare

OURS = catalogue.recipes()["http-server"]


def changed(**values: object) -> Recipe:
    return updated(OURS, name="mine", **values)  # type: ignore[arg-type]


def test_a_prepared_target_has_provenance(place: BuildPaths) -> None:
    prepared = prepare(OURS, place)
    assert isinstance(prepared, PreparedTarget)
    assert prepared.version == f"Python {sys.version.split()[0]}"
    assert prepared.binary_sha256 == hashlib.sha256(Path(sys.executable).read_bytes()).hexdigest()


def test_an_arm_is_published_without_paths_of_this_machine(place: BuildPaths) -> None:
    prepared = prepare(OURS, place)
    assert isinstance(prepared, PreparedTarget)
    arm = prepared.arm("copy")
    assert (arm.name, arm.target, arm.origin) == ("copy", "http-server", Origin.RECIPE)
    assert arm.command == OURS.start.command
    assert not [word for word in arm.command if word.startswith("/")]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"programs": ("no-such-tool",)}, "no program no-such-tool on the PATH"),
        ({"modules": ("no_such_module",)}, "this Python has no module no_such_module"),
        ({"modules": ("no_such.module",)}, "this Python has no module no_such.module"),
        ({"headers": ("no/such.h",)}, "the C compiler finds no header no/such.h"),
        ({"files": ("/usr/no.such",)}, "no file /usr/no.such"),
        ({"program": "no-such-program"}, "no program no-such-program here"),
    ],
)
def test_what_is_missing_is_reported_with_its_install_hint(
    place: BuildPaths, change: dict[str, object], reason: str
) -> None:
    recipe = changed(**change)
    expected = UnavailableTarget(
        name="mine", reason=reason, install_hint="sudo apt-get install python3"
    )
    assert missing_requirement(recipe, place) == expected
    assert prepare(recipe, place) == expected


@pytest.mark.skipif(find_program("cc") is None, reason="there is no C compiler here")
def test_a_header_is_looked_for_where_the_compiler_looks(
    place: BuildPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = changed(headers=("made/up.h",))
    assert missing_requirement(recipe, place) is not None
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "up.h").touch()
    monkeypatch.setenv("CPATH", str(tmp_path))
    assert missing_requirement(recipe, place) is None


def test_a_remedy_names_the_python_to_install_into(
    place: BuildPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = changed(modules=("no_such_module",), install="{python} -m pip install it")
    monkeypatch.chdir(Path(sys.executable).parents[1])
    lack = missing_requirement(recipe, place)
    assert lack is not None
    assert lack.install_hint == f"bin/{Path(sys.executable).name} -m pip install it"
    monkeypatch.chdir("/")
    monkeypatch.setattr(sys, "executable", "elsewhere/bin/python")
    lack = missing_requirement(recipe, place)
    assert lack is not None
    assert lack.install_hint == "python -m pip install it"


def test_no_version_no_trial(place: BuildPaths) -> None:
    mute = VersionQuery(command=("{python}", "-c", "print('hello')"), pattern=r"version (\d+)")
    with pytest.raises(TargetError, match="mine: it does not report its version") as failed:
        prepare(changed(version=mute), place)
    assert failed.value.stderr == "hello\n"


def test_an_empty_version_is_none(place: BuildPaths) -> None:
    empty = VersionQuery(command=("{python}", "-c", "print('version ')"), pattern=r"version (\S*)")
    with pytest.raises(TargetError, match="which is required"):
        prepare(changed(version=empty), place)


def test_a_program_that_does_not_report_its_version_is_an_error(place: BuildPaths) -> None:
    absent = VersionQuery(command=("{cache}/absent",), pattern="(.*)")
    with pytest.raises(TargetError, match="its version cannot be determined"):
        prepare(changed(version=absent), place)


def test_a_step_that_fails_is_an_error_with_its_stderr(place: BuildPaths) -> None:
    step = BuildStep(command=("{python}", "-c", "import sys; sys.exit('no compiler')"))
    with pytest.raises(
        TargetError, match=r"mine: getting ready failed: .* exited with 1"
    ) as failed:
        prepare(changed(build=(step,)), place)
    assert failed.value.stderr == "no compiler\n"


def test_steps_run_in_the_recipes_own_cache_folder(place: BuildPaths) -> None:
    code = "import os, pathlib; pathlib.Path('made').write_text(os.environ['WORD'])"
    step = BuildStep(command=("{python}", "-c", code), environment={"WORD": "in {cache}"})
    assert isinstance(prepare(changed(build=(step,)), place), PreparedTarget)
    folder = place.cache / "mine"
    assert (folder / "made").read_text() == f"in {folder}"


def test_a_cache_that_cannot_be_written_is_an_error(place: BuildPaths, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    step = BuildStep(command=("{python}", "-c", "pass"))
    with pytest.raises(TargetError, match=r"mine: .* cannot be made: Not a directory"):
        prepare(changed(build=(step,)), updated(place, cache=tmp_path / "file"))


def test_looking_for_what_is_missing_leaves_nothing(place: BuildPaths, tmp_path: Path) -> None:
    empty = updated(place, cache=tmp_path / "cache")
    assert missing_requirement(OURS, empty) is None
    assert not empty.cache.exists()


def test_steps_that_make_no_program_are_an_error(place: BuildPaths) -> None:
    step = BuildStep(command=("{python}", "-c", "pass"))
    recipe = changed(build=(step,), program="{cache}/absent")
    assert missing_requirement(recipe, place) is None
    with pytest.raises(TargetError, match="mine: its steps of getting ready made no program"):
        prepare(recipe, place)


@pytest.mark.slow
@pytest.mark.parametrize(("stamped", "code"), [("it==1", 0), ("it==2", 1)])
def test_packages_of_another_version_are_installed_anew(
    tmp_path: Path, stamped: str, code: int
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "installed.txt").write_text(f"{sys.version}\n{stamped}")
    # pip searches no index, so a missing package fails.
    command = [sys.executable, str(APPS / "install.py"), str(site), "it==1"]
    nowhere = {"PIP_NO_INDEX": "1", "PIP_NO_INPUT": "1"}
    done = subprocess.run(command, env=nowhere, capture_output=True, check=False)
    assert done.returncode == code
    assert [path.name for path in tmp_path.iterdir()] == ["site"], "what is there stays as it was"
