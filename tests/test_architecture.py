"""The dependency rules of ARCHITECTURE.md, as a test.

Rules that are not checked are soon broken. Each test below checks one rule, and its failure message
says what to do instead.
"""

import ast
import re
import tomllib
from collections.abc import Collection
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.architecture_drawing import PICTURE, imported, picture

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python" / "jissoku"
CRATES = ROOT / "crates"

# Which of our crates each crate may name. Adding an edge needs a page in docs/decisions/.
CRATE_MAY_USE = {
    "jissoku-charts": set[str](),  # numbers and texts, and nothing of this project
    "jissoku-os": set[str](),
    "jissoku-http": set[str](),
    "jissoku-tls": set[str](),
    "jissoku-server": {"jissoku-os", "jissoku-http", "jissoku-tls"},
    "jissoku-lab": {"jissoku-os", "jissoku-http", "jissoku-server"},
    "jissoku-proxy": {"jissoku-os", "jissoku-http", "jissoku-server"},
    "jissoku-load": {
        "jissoku-os",
        "jissoku-tls",
    },  # never jissoku-http: the load generator shares no HTTP with a runner
    "jissoku-store": {"jissoku-os"},  # it knows none of those who keep values
    "jissoku-handlers": {
        "jissoku-charts",
        "jissoku-os",
        "jissoku-http",
        "jissoku-server",
        "jissoku-store",
    },
    "jissoku-handler": set[str](),  # of the server it knows jissoku.h only
    "jissoku-profile": {"jissoku-os"},  # it depends on processes, and on no server
    "jissoku-cli": {
        "jissoku-os",
        "jissoku-server",
        "jissoku-handlers",
        "jissoku-lab",
        "jissoku-load",
        "jissoku-profile",
        "jissoku-proxy",
        "jissoku-store",
        "jissoku-tls",
    },
    "jissoku-apps": {"jissoku-os", "jissoku-http", "jissoku-server", "jissoku-proxy"},
    "jissoku-python": {
        "jissoku-apps",
        "jissoku-charts",
        "jissoku-cli",
        "jissoku-os",
        "jissoku-server",
        "jissoku-store",
    },
}

# Foreign crates with one address each.
ONLY_IN = {
    "pyo3": ("jissoku-python", "jissoku-apps"),
    "io-uring": ("jissoku-os",),
    "libc": ("jissoku-os",),
    "nix": ("jissoku-os",),
    "lmdb": ("jissoku-store",),
    "rustix": ("jissoku-os",),
    "signal-hook": ("jissoku-os",),
}

# Crates that may contain `unsafe`, and where in them.
UNSAFE_MAY_LIVE_IN = (
    "jissoku-os/src/",
    "jissoku-http/src/scan/sse2.rs",
    "jissoku-apps/src/interpreter.rs",
    "jissoku-store/src/environment.rs",
    "jissoku-handlers/src/ffi",
    "jissoku-handler/src/ffi",
)  # fmt: skip

# A limit may be lowered, never raised.
LINES_MAX = 600

STAGES = {
    "conformance",
    "design",
    "explain",
    "targets",
    "records",
    "history",
    "inference",
    "report",
    "migrate",
}
ALL_MAY_USE = {"model", "request", "errors"}
PURE_STAGES = {"request", "model", "design", "inference", "explain", "report", "migrate"}

# Every stage with I/O may use the operating system.
MAY_ALSO_USE = {
    **{stage: {"system"} for stage in STAGES - PURE_STAGES},
    "cli": STAGES | {"fleet", "measure", "system", "ui", "_native"},
    "ui": STAGES | {"chart", "measure", "system", "serving"},
    "measure": STAGES | {"system"},  # not _native: ours is started like any other server
    "fleet": STAGES | {"measure", "system"},  # targets of another host, for comparisons of measure
    "__main__": {"cli"},
    "__init__": {"comparing", "loading", "serving"},
    "comparing": STAGES | {"cli", "fleet", "measure", "serving", "system"},
    "pytest_plugin": {"comparing", "report", "serving"},
    "loading": {"_native", "serving"},  # for scripts; the laboratory starts `jissoku load`
    "serving": {"_native"},  # for applications; the laboratory does not use it
    "chart": {"_native"},  # for applications and for the pages
    "store": {"_native"},  # for applications, too
}
NOT_FOR_CLI = {"asyncio", "multiprocessing", "os", "socket", "subprocess", "threading"}
WRITES = {"write_text", "write_bytes", "mkdir", "unlink", "touch"}
IMPURE = {"asyncio", "multiprocessing", "os", "signal", "socket", "subprocess", "threading", "time"}


def modules() -> list[Path]:
    """Every Python module of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def stage_of(path: Path) -> str:
    """`inference/compare.py` belongs to `inference`; `model.py` is a stage of its own."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def is_place(name: str) -> bool:
    """Whether the package has a module or a stage of this name; `jissoku.__version__` is
    neither."""
    return any((PACKAGE / f"{name}{suffix}").exists() for suffix in ("", ".py", ".pyi"))


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_stages_do_not_know_each_other(path: Path) -> None:
    me = stage_of(path)
    allowed = {me} | ALL_MAY_USE | MAY_ALSO_USE.get(me, set())
    if me == "model":
        allowed = {"model", "request"}
    if me == "request":
        allowed = {"request", "errors"}
    for name in imported(path):
        package, _, rest = name.partition(".")
        stage = rest.partition(".")[0]
        if package == "jissoku" and stage and is_place(stage):
            assert stage in allowed, (
                f"{me} imports {stage}: pass the value through model and let measure carry it"
            )


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Of imports at the top of a file; one inside a function defers a slow import."""
    places = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in modules()
    }
    places = {name.removesuffix(".__init__"): path for name, path in places.items()}
    graph = {name: imported_modules(path, places) - {name} for name, path in places.items()}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"these modules import each other: {' <- '.join(error.args[1])}")


def imported_modules(path: Path, places: Collection[str]) -> set[str]:
    """The package's modules that a module imports when it is loaded itself."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found.add(name if name in places else node.module)
    return found & set(places)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_thinking_stages_do_no_io(path: Path) -> None:
    if stage_of(path) in PURE_STAGES:
        touched = {name.partition(".")[0] for name in imported(path)} & IMPURE
        assert not touched, f"{touched} in a pure stage: read the world in measure or targets"


def test_the_command_line_parses_and_prints() -> None:
    """Only stages and measure start processes, open sockets or write files."""
    for path in modules():
        if stage_of(path) != "cli":
            continue
        touched = {name.partition(".")[0] for name in imported(path)} & NOT_FOR_CLI
        assert not touched, f"{path.name} imports {touched}: do it in measure or a stage"
        calls = {
            node.attr
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Attribute)
        }
        assert not calls & WRITES, f"{path.name} writes a file: have measure/reports.py do it"


@pytest.mark.parametrize(
    "manifest", sorted(CRATES.glob("*/Cargo.toml")), ids=lambda p: p.parent.name
)
def test_crates_point_one_way(manifest: Path) -> None:
    spec = tomllib.loads(manifest.read_text())
    name = spec["package"]["name"]
    assert manifest.parent.name == name, "a crate lives in a folder of its own name"
    used = set(spec.get("dependencies", {}))
    ours = {dep for dep in used if dep.startswith("jissoku-")}
    assert ours <= CRATE_MAY_USE[name], f"new edge {ours - CRATE_MAY_USE[name]}: write a decision"
    misplaced = {dep for dep in used & ONLY_IN.keys() if name not in ONLY_IN[dep]}
    assert not misplaced, f"{misplaced} belongs elsewhere: {ONLY_IN}"


def test_the_protocol_crate_has_no_dependencies() -> None:
    manifest = tomllib.loads((CRATES / "jissoku-http" / "Cargo.toml").read_text())
    assert not manifest.get("dependencies"), "HTTP is a function of bytes, with no other crate"
    # An address is a value: `core::net` has those, and no sockets.
    touched = [
        str(path.relative_to(CRATES))
        for path in (CRATES / "jissoku-http" / "src").rglob("*.rs")
        if any(word in path.read_text() for word in ("std::net", "std::io", "std::fs", "std::time"))
        and path.name != "tests.rs"
    ]
    assert not touched, f"{touched} reach for the world: hand them the bytes instead"


@pytest.mark.parametrize("module", ["floor", "oracle"])
def test_a_reference_shares_no_code_with_what_is_held_against_it(module: str) -> None:
    src = CRATES / "jissoku-lab" / "src"
    texts = [path.read_text() for path in [src / f"{module}.rs", *(src / module).rglob("*.rs")]]
    named = set(re.findall(r"\b(?:jissoku_\w+|crate::\w+)", "".join(texts)))
    assert named <= {"jissoku_os", f"crate::{module}"}


def test_the_decisions_of_the_proxy_are_pure() -> None:
    """Times and random seeds are arguments: a test can produce every order of events."""
    ours = r"jissoku_(?!http|os::quantity)|\bcrate::(?!policy)"
    impure = rf"{ours}|Tcp|Udp|Unix(Stream|Listener)|std::(thread|time|fs|io)"
    src = CRATES / "jissoku-proxy" / "src"
    sources = [path for path in (src / "policy").rglob("*.rs") if path.name != "tests.rs"]
    assert len(sources) > 20
    found = {
        str(path.relative_to(src)): line
        for path in [src / "policy.rs", *sources]
        for line in path.read_text().splitlines()
        if not line.lstrip().startswith("//") and re.search(impure, line)
    }
    assert not found, "pass the value as an argument"


def test_the_drawing_is_that_of_the_sources() -> None:
    drawn = picture()
    assert PICTURE.read_text() == drawn, "run `python -m tests.architecture_drawing`"
    for name in ["jissoku-proxy", "inference"]:
        assert f">{name}</text>" in drawn


def test_every_name_of_a_file_on_the_map_is_one() -> None:
    """Short names (`reject.rs`) are those of a file beside one named in full, or below its row's
    crate; full paths are checked with those of all documents."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    full = {ROOT / place for place in re.findall(r"`((?:crates|python|docs|tests)/[^`]*)`", text)}
    assert len(full) > 60
    assert [place for place in sorted(full) if not place.exists()] == []
    near = {path.parent for path in full} | {crate / "src" for crate in CRATES.iterdir()}
    near |= {PACKAGE, CRATES / "jissoku-http" / "src"}
    short = set(re.findall(r"`([\w]+\.(?:rs|py))`", text))
    folders = set(re.findall(r"`([\w]+/)`", text)) - {"crates/", "tests/"}
    lost = [
        name
        for name in sorted(short | folders)
        if not any((at / name).exists() for at in near | {ROOT})
    ]
    assert lost == []


def test_files_are_about_one_thing() -> None:
    sources = [*CRATES.rglob("src/**/*.rs"), *modules()]
    long = {
        str(path.relative_to(ROOT)): lines
        for path in sources
        if (lines := len(path.read_text().splitlines())) > LINES_MAX
    }
    assert not long, f"{long}: look for the second noun in them"


def test_a_folder_of_modules_has_its_file_beside_it() -> None:
    """`scan.rs` beside `scan/`, not `scan/mod.rs`: unless another crate includes it by its path."""
    included = {
        CRATES / "jissoku-http" / "src" / "scan" / "mod.rs",
        CRATES / "jissoku-server" / "tests" / "it" / "files" / "mod.rs",
    }
    assert set(CRATES.rglob("mod.rs")) == included


def test_unsafe_stays_home() -> None:
    strays = [
        str(path.relative_to(CRATES))
        for path in CRATES.rglob("src/**/*.rs")
        if "unsafe " in path.read_text()
        and not str(path.relative_to(CRATES)).startswith(UNSAFE_MAY_LIVE_IN)
    ]
    assert not strays, f"unsafe outside {UNSAFE_MAY_LIVE_IN}: {strays}"


def test_the_map_names_every_place() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    places = [p.parent.name for p in CRATES.glob("*/Cargo.toml")]
    places += [p.name for p in PACKAGE.iterdir() if p.is_dir() and not p.name.startswith("_")]
    unavailable = [place for place in places if f"`{place}`" not in text]
    assert not unavailable, f"ARCHITECTURE.md does not mention {unavailable}"
