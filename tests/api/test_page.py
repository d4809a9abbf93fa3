"""The examples of docs/api.md, as a reader would run them: in order, in one program."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def test_the_page_is_short() -> None:
    assert len(PAGE.read_text().split()) <= 600


@pytest.mark.slow
def test_the_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(block, names)  # noqa: S102 - the page is ours
    assert re.search(r"\d+ requests/s, p99 [\d.]+ ms \(\w+ samples\)", capsys.readouterr().out)
