"""The cases of conformance/apps of the package against a server on a port."""

from typing import Any

from jissoku.conformance import applications
from jissoku.system.address import Address

CASES = applications.BUILTIN_CASES


def read_cases(name: str) -> list[dict[str, Any]]:
    """The cases of one file."""
    return applications.read_cases(CASES / name)


def check(case: dict[str, Any], port: int) -> None:
    """Sends a case and compares what came back."""
    address = Address(host="127.0.0.1", port=port)
    wrong = applications.check_case(case, address, must_persist=True)
    assert not wrong, wrong
