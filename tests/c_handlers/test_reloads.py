"""Repeated reloads of a handler under load: no request is lost, or answered twice."""

from pathlib import Path
from typing import get_args

import pytest

from tests.c_handlers.reloading import Kind, reload_often

pytestmark = pytest.mark.race


@pytest.mark.parametrize("kind", get_args(Kind))
def test_each_request_has_one_response_in_ten_reloads(kind: Kind, tmp_path: Path) -> None:
    seen = reload_often(kind, 10, tmp_path)
    assert seen.handled == seen.answers > 0
