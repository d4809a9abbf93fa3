"""The cases of WebSockets against our server, and the frames that they are made of."""

from collections.abc import Iterator
from typing import Any

import pytest

from jissoku.conformance.applications import check_case, encoded, expand
from jissoku.system.address import Address
from tests.apps.app_cases import read_cases
from tests.apps.conftest import port_of, serve

CASES = read_cases("websocket.toml")


@pytest.fixture(scope="module")
def address() -> Iterator[Address]:
    served = serve("asgi_cases:app")
    try:
        yield Address(host="127.0.0.1", port=port_of(served))
    finally:
        served.end()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_case_passes(case: dict[str, Any], address: Address) -> None:
    assert check_case(case, address) == ""


def test_names_are_unique() -> None:
    names = [case["name"] for case in CASES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"answers": [{"op": "text", "payload": "other"}]}, "text b'sent' (4 bytes) instead of"),
        ({"close": 1002}, "text b'sent' (4 bytes) instead of a close"),
        ({"close": 1001, "send": [{"op": "close", "hex": "03e8"}]}, "code 1000 instead of 1001"),
        ({"offer": "permessage-deflate", "extension": ""}, "extensions permessage-deflate"),
    ],
)
def test_a_difference_is_named(change: dict[str, Any], wrong: str, address: Address) -> None:
    case = {"send": [{"op": "text", "payload": "sent"}], **change}
    assert check_case(case, address).startswith(wrong)


def test_each_value_makes_a_case() -> None:
    [one, two] = expand({"name": "n", "each": [1, 2], "send": [{"times": "{each}"}]})
    assert one == {"name": "n_1", "send": [{"times": 1}]}
    assert two == {"name": "n_2", "send": [{"times": 2}]}


@pytest.mark.parametrize(
    ("item", "head", "size"),
    [
        # RFC 6455 section 5.7, with another mask.
        ({"op": "text", "payload": "Hello"}, "8185", 5),
        ({"op": "text", "payload": "Hel", "fin": False}, "0183", 3),
        ({"op": "ping", "payload": "Hello", "rsv": 4}, "c985", 5),
        ({"op": "binary", "hex": "00", "times": 256}, "82fe0100", 256),
        ({"op": "binary", "hex": "00", "times": 65_536}, "82ff0000000000010000", 65_536),
    ],
)
def test_a_frame_is_encoded(item: dict[str, Any], head: str, size: int) -> None:
    frame = encoded(item)
    assert frame.startswith(bytes.fromhex(head))
    assert len(frame) == len(head) // 2 + 4 + size
