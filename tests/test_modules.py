"""Rust modules that import each other in a circle, counted from their `use` lines.

A module is a file. `use crate::`, `use super::` and `use self::` count, with the longest path that
is a module; the crate root, which only re-exports, and tests do not.
"""

import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import takewhile
from pathlib import Path

import pytest

CRATES = Path(__file__).parents[1] / "crates"

Module = tuple[str, ...]

USE = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?use ([^;]+);", re.MULTILINE)
TESTS = "#[cfg(test)]\nmod tests {"


def modules(crate: str) -> dict[Module, Path]:
    """The files of a crate by module path; a folder's `mod.rs` is the folder."""
    source = CRATES / crate / "src"
    found = {}
    for path in source.rglob("*.rs"):
        parts = path.relative_to(source).with_suffix("").parts
        if "tests" not in parts and parts not in {("lib",), ("main",)}:
            found[parts[:-1] if parts[-1] == "mod" else parts] = path
    return found


def alternatives(body: str) -> Iterator[str]:
    """The parts of a list at its commas, without those inside of braces."""
    depth, start = 0, 0
    for index, sign in enumerate(body):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            yield body[start:index]
            start = index + 1
    if body[start:]:
        yield body[start:]


def paths(body: str, prefix: list[str]) -> Iterator[list[str]]:
    """`a::{b, c::d}` is `a::b` and `a::c::d`."""
    for part in alternatives(body):
        head, brace, rest = part.partition("{")
        if brace:
            yield from paths(rest[:-1], prefix + head.split("::")[:-1])
        else:
            yield prefix + part.split("::")


def imported(module: Module, text: str, known: dict[Module, Path]) -> set[Module]:
    """The modules that `use` lines of `module` name."""
    found = set()
    for match in USE.finditer(text.partition(TESTS)[0]):
        body = re.sub(r"\s+", "", re.sub(r" as \w+", "", match[1]))
        for path in paths(body, []):
            ups = sum(1 for _ in takewhile("super".__eq__, path))
            if path[0] == "crate":
                full = tuple(path[1:])
            elif ups:
                full = module[: len(module) - ups] + tuple(path[ups:])
            elif path[0] == "self" or (*module, path[0]) in known:
                full = module + tuple(path[path[0] == "self" :])
            else:
                continue
            while full and full not in known:
                full = full[:-1]
            if full not in {module, ()}:
                found.add(full)
    return found


@pytest.mark.parametrize("crate", sorted(path.parent.name for path in CRATES.glob("*/Cargo.toml")))
def test_no_modules_import_each_other(crate: str) -> None:
    known = modules(crate)
    graph = {name: imported(name, path.read_text(), known) for name, path in known.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = " -> ".join("::".join(name) for name in error.args[1])
        pytest.fail(f"{crate}: {circle}: move what both need to a module of its own")


def test_lists_and_parents_are_resolved() -> None:
    known = {name: Path() for name in [("a",), ("a", "b"), ("c",), ("c", "d")]}
    text = "use crate::{c::{d::X, Y}, Z};\npub(crate) use b::Q as R;\nuse std::fmt;\n"
    assert imported(("a",), text, known) == {("c", "d"), ("c",), ("a", "b")}
    assert imported(("a", "b"), "use super::P;\nuse super::super::c::Y;\n", known) == {
        ("a",),
        ("c",),
    }
