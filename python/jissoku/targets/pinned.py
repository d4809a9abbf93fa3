"""A recipe's target in another version: `granian-wsgi@2.7.1`."""

import re
from dataclasses import replace

from jissoku.errors import InputError
from jissoku.model import Recipe, UnavailableTarget
from jissoku.model.arm import short_version
from jissoku.model.updated import updated
from jissoku.targets.build_paths import BuildPaths
from jissoku.targets.prepare import PreparedTarget, prepare

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
