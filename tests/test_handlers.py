"""Handlers around another handler: each passes every event of the interface on, or handles it.

Most methods of the trait have an empty default: a missing one compiles, and loses events.
"""

import re
from pathlib import Path

import pytest

CRATES = Path(__file__).parents[1] / "crates"
INTERFACE = CRATES / "jissoku-server" / "src" / "handler.rs"
METHOD = re.compile(r"^    fn (\w+)", re.MULTILINE)

# Each with the methods that it may lack: a service with faults opens no connections.
AROUND_ANOTHER = {
    "jissoku-lab/src/fixtures/faulty.rs": {"outbound"},
    "jissoku-proxy/src/routed/handler.rs": set[str](),
}


def methods(source: str, start: str) -> set[str]:
    """The methods of the block that begins with a line that matches `start`."""
    found = re.search(rf"^{start}.*?^}}$", source, re.MULTILINE | re.DOTALL)
    assert found, start
    return set(METHOD.findall(found[0]))


@pytest.mark.parametrize("path", AROUND_ANOTHER)
def test_a_handler_around_another_has_every_method(path: str) -> None:
    interface = methods(INTERFACE.read_text(), r"pub trait Handler\b")
    assert {"on_head", "on_abandon", "outbound"} <= interface
    found = methods((CRATES / path).read_text(), r"impl<[^>]*>+ Handler for ")
    assert found == interface - AROUND_ANOTHER[path]
