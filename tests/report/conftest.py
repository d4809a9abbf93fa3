"""`python -m pytest tests/report --golden` rewrites the golden files; look at the difference."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden", action="store_true", default=False, help="rewrite the golden report files"
    )
