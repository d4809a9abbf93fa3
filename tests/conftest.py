"""Options that several tests share."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--minutes",
        type=float,
        default=60.0,
        help="How long the soak lasts; the promise is about an hour.",
    )
    parser.addoption(
        "--detections",
        type=int,
        default=10,
        help="How often each cause is planted for the explainer to name.",
    )
