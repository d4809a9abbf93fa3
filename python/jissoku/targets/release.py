"""Targets in another version: a released Python package, searched first, or `NAME@VERSION`."""

import hashlib
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from jissoku.errors import InputError, TargetError
from jissoku.model import Recipe, UnavailableTarget
from jissoku.model.run import short_version
from jissoku.model.updated import updated
from jissoku.targets import provenance
from jissoku.targets.command import from_command
from jissoku.targets.placeholders import APPS, BuildPaths, search_path
from jissoku.targets.prepare import PREPARE_LIMIT_S, PreparedTarget, prepare

WHEEL = ".whl"

# A name and an exact version, as pip reads them.
PINNED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.+!_-]*")

# The folder's programs and modules take precedence over those of this Python, and over those of the
# working directory, which `python -m` would put first.
ENVIRONMENT: Mapping[str, str] = {
    "PYTHONPATH": "{site}",
    "PYTHONSAFEPATH": "1",
    "PATH": "{site}/bin:{path}",
}


def is_release(text: str) -> bool:
    """Whether a text is a wheel's path or `PACKAGE==VERSION`."""
    return text.endswith(WHEEL) or PINNED.fullmatch(text) is not None


def check_release(release: str) -> None:
    """Refuses a wheel that is not there, before anything is built.

    Raises:
        InputError: There is no such file.
    """
    if release.endswith(WHEEL) and not Path(release).is_file():
        raise InputError(f"--baseline {release}: there is no such wheel")


def from_release(text: str, release: str, place: BuildPaths) -> PreparedTarget:
    """Prepares `NAME=COMMAND` to be run with a release.

    Args:
        text: As for `--cmd`.
        release: A wheel's path, or `PACKAGE==VERSION` of the package index.
        place: Where releases are kept between runs.

    Raises:
        InputError: There is no such wheel, or the command is malformed.
        TargetError: It cannot be installed; `stderr` is what pip reported.
    """
    site = _installed(release, place)
    prepared = from_command(text, place)
    assert prepared.start is not None, "a command starts"
    named = Path(release).name
    return replace(
        prepared,
        version=f"{named}, {prepared.version}",
        start=updated(prepared.start, environment=dict(ENVIRONMENT)),
        values=prepared.values | {"site": str(site), "path": search_path()},
        # The release is part of the program: two of them are different arms.
        source_sha256=hashlib.sha256(f"{site.name} {prepared.version}".encode()).hexdigest(),
    )


def _installed(release: str, place: BuildPaths) -> Path:
    """The release's folder, named by the wheel's content or by package and version."""
    check_release(release)
    key = release
    if release.endswith(WHEEL):
        wheel = Path(release).absolute()
        release, key = str(wheel), provenance.sha256(wheel)
    site = place.cache / "releases" / hashlib.sha256(key.encode()).hexdigest()[:16]
    site.parent.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            [sys.executable, str(APPS / "install.py"), str(site.absolute()), release],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PREPARE_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TargetError(f"pip took longer than {PREPARE_LIMIT_S:g} s for {release}") from error
    if done.returncode:
        said = done.stdout.decode(errors="replace")[-2000:]
        raise TargetError(f"{Path(release).name} cannot be installed", stderr=said)
    return site.absolute()


VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]*")


def split_version(target: str) -> tuple[str, str]:
    """The recipe's name and the version asked for; the version is empty where none is named.

    Raises:
        InputError: The text after the @ is not a version.
    """
    name, at, version = target.partition("@")
    if at and not VERSION.fullmatch(version):
        raise InputError(f"{target!r}: write TARGET@VERSION, such as granian-wsgi@2.7.1")
    return name, version


def prepare_version(
    recipe: Recipe, version: str, place: BuildPaths
) -> PreparedTarget | UnavailableTarget:
    """Prepares a recipe's target in this version, beside others of it.

    Raises:
        TargetError: As `prepare`; a version that does not exist fails to install.
    """
    other = pinned(recipe, version)
    apart = replace(place, cache=place.cache / f"{recipe.name}@{version}")
    found = prepare(recipe, place) if other is None else prepare(other, apart)
    if isinstance(found, UnavailableTarget) or short_version(found.version) == version:
        return found
    return UnavailableTarget(
        name=f"{recipe.name}@{version}",
        reason=f"its recipe uses the installed version, which is {found.version}",
        install_hint=f"--cmd '{recipe.name}-{version}=...' with a command that starts that version",
    )


def pinned(recipe: Recipe, version: str) -> Recipe | None:
    """The recipe with another version of the package that its first step installs.

    None where no step names a version, because the recipe uses the installed program. Further
    packages of the step stay unchanged.
    """
    words = [word for step in recipe.build for word in step.command]
    package, equals, given = next((w for w in words if "==" in w), "").partition("==")
    if not equals:
        return None

    def other(word: str) -> str:
        word = f"{package}=={version}" if word == f"{package}=={given}" else word
        return word.replace(f"-{given}.dist-info", f"-{version}.dist-info")

    return updated(
        recipe,
        binary=other(recipe.binary),
        build=tuple(
            updated(step, command=tuple(map(other, step.command))) for step in recipe.build
        ),
    )
