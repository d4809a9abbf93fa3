"""The sources by which the floor is known in the history, whatever else of jissoku changes."""

import re
from pathlib import Path

import pytest

from jissoku import _native
from jissoku.targets import catalogue
from jissoku.targets.placeholders import BuildPaths
from jissoku.targets.prepare import PreparedTarget, prepare

CRATES = Path(__file__).parents[2] / "crates"
FLOORS = ("floor", "floor-gateway", "floor-uwsgi-gateway")


def sources() -> dict[str, str]:
    """The text of each file that is hashed."""
    text = _native.floor_sources().decode()
    parts = re.split(r"^(jissoku-(?:lab/src/floor|os/src)[\w/]*\.rs)$", text, flags=re.MULTILINE)
    assert parts[0] == ""
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_they_are_those_that_the_floor_is_compiled_from() -> None:
    found = sources()
    assert list(found) == sorted(found, key=lambda name: name.split("/"))
    src = CRATES / "jissoku-lab" / "src"
    for path in [src / "floor.rs", *(src / "floor").rglob("*.rs")]:
        if path.stem != "tests":
            assert str(path.relative_to(CRATES)) in found
    for name, text in found.items():
        assert text.strip() == (CRATES / name).read_text().strip(), f"{name}: run `make build`"


def test_no_module_is_left_out() -> None:
    found = sources()
    os_modules = {name.split("/")[2].removesuffix(".rs") for name in found if "-os/" in name}
    used = {"socket"}
    for name, text in found.items():
        production = re.sub("//.*", "", text.partition("#[cfg(test)]")[0])
        prefix = "jissoku_os" if name.startswith("jissoku-lab/") else "crate"
        used |= set(re.findall(rf"\b{prefix}::(\w+)", production)) & all_modules()
    assert used == os_modules


def all_modules() -> set[str]:
    """Those of the crate that the floor shares with the server."""
    return {path.stem for path in (CRATES / "jissoku-os" / "src").glob("*.rs")}


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOORS)
def test_a_floor_is_known_by_them(place: BuildPaths, name: str) -> None:
    prepared = prepare(catalogue.recipes()[name], place)
    assert isinstance(prepared, PreparedTarget)
    assert re.fullmatch("[0-9a-f]{64}", prepared.source_sha256)
    # Neither commit nor state of the checkout.
    assert prepared.version == _native.__version__
