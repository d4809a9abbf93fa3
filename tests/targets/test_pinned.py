"""Targets in another version than their recipe's."""

from pathlib import Path

import pytest

from jissoku.errors import InputError
from jissoku.model import UnavailableTarget
from jissoku.model.run import short_version
from jissoku.targets import catalogue
from jissoku.targets.command import pinned, prepare_version, split_version
from jissoku.targets.placeholders import BuildPaths


@pytest.mark.parametrize("name", ["granian-wsgi", "waitress", "meinheld", "nginx-wsgi"])
def test_a_recipe_that_names_a_version_gets_another_one(name: str) -> None:
    recipe = catalogue.recipes()[name]
    other = pinned(recipe, "0.0.99")
    assert other is not None
    before = [word for step in recipe.build for word in step.command]
    after = [word for step in other.build for word in step.command]
    changed = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    ((old, new),) = changed
    package, _, given = old.partition("==")
    assert new == f"{package}==0.0.99"
    assert given not in other.binary
    assert pinned(other, given) == recipe


@pytest.mark.slow
def test_a_recipe_of_an_installed_program_has_no_other(tmp_path: Path) -> None:
    recipe = catalogue.recipes()["floor"]
    assert pinned(recipe, "1.0") is None
    place = BuildPaths(cache=tmp_path, files=tmp_path)
    refused = prepare_version(recipe, "0.0.1", place)
    assert isinstance(refused, UnavailableTarget)
    assert refused.sentence.startswith("floor@0.0.1 is not available here: its recipe uses")
    installed = prepare_version(recipe, short_version(refused.reason.split(" is ")[-1]), place)
    assert not isinstance(installed, UnavailableTarget)


def test_what_is_asked_for() -> None:
    assert split_version("granian-wsgi@2.7.1") == ("granian-wsgi", "2.7.1")
    assert split_version("go") == ("go", "")
    for word in ("go@", "go@../x", "go@1 2", "go@1==2"):
        with pytest.raises(InputError, match="write TARGET@VERSION"):
            split_version(word)


def test_a_version_is_the_first_word_of_what_is_reported() -> None:
    assert short_version("2.8.7, uvloop 0.23.0") == "2.8.7"
    assert short_version("0.1.0 (release, 8234e4aa73)") == "0.1.0"
