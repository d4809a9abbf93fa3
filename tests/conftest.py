"""Options that several tests share."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--minutes",
        type=float,
        default=60.0,
        help="How long the soak lasts; the promise is about an hour.",
    )
