"""Handlers around another handler: each passes on, or handles, every event that the other one has.

Most methods of the trait have an empty default: a missing one compiles, and loses events.
"""

import re
from pathlib import Path

CRATES = Path(__file__).parents[1] / "crates"
INTERFACE = CRATES / "jissoku-server" / "src" / "handler.rs"

# The services of the laboratory, which are one type.
FIXTURES = [
    CRATES / f"jissoku-{path}.rs"
    for path in (
        "lab/src/fixtures/contract",
        "lab/src/fixtures/echo",
        "lab/src/fixtures/forty_two",
        "lab/src/fixtures/slow_text",
        "server/src/files",
        "server/src/fixed",
        "server/src/metrics_page",
    )
]
FIXTURE = CRATES / "jissoku-lab" / "src" / "fixtures" / "fixture.rs"
FAULTY = CRATES / "jissoku-lab" / "src" / "fixtures" / "faulty.rs"
ROUTED = CRATES / "jissoku-proxy" / "src" / "routed" / "handler.rs"
IMPLEMENTS = r"impl[^\n]* Handler for "


def methods(path: Path, start: str = IMPLEMENTS) -> set[str]:
    """The methods of the block that begins with a line that matches `start`."""
    found = re.search(rf"^( *){start}.*?^\1}}$", path.read_text(), re.MULTILINE | re.DOTALL)
    assert found, start
    return set(re.findall(rf"^{found[1]}    fn (\w+)", found[0], re.MULTILINE))


def test_the_handler_of_routes_has_every_method() -> None:
    interface = methods(INTERFACE, r"pub trait Handler\b")
    assert {"on_head", "on_abandon", "outbound"} <= interface
    # Routes call this of the handler that they lead to, and are not reached by routes themselves.
    assert methods(ROUTED) == interface - {"on_routed_head"}


def test_the_type_of_all_fixtures_has_every_method_of_any() -> None:
    fixture = methods(FIXTURE)
    assert {"on_head", "on_body", "respond"} <= fixture
    assert fixture == set().union(*map(methods, FIXTURES))


def test_faults_are_added_to_every_method_of_a_fixture() -> None:
    assert methods(FAULTY) == methods(FIXTURE) | {"event_loop"}
