"""The examples of docs/api.md, as a reader would run them: in order, in one program."""

import re
from pathlib import Path

import pytest

from jissoku.measure import asked_comparison
from tests.api.test_pytest_plugin import MADE_UP, run
from tests.ci.made_up import campaign

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
*BLOCKS, FIXTURES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def test_the_page_is_short() -> None:
    assert len(PAGE.read_text().split()) <= 600


def run_examples() -> None:
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(block, names)  # noqa: S102 - the page is ours


@pytest.mark.slow
def test_the_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    # Its load takes most of a minute, and is sent by the test below.
    monkeypatch.setattr(asked_comparison, "compare", campaign(lambda _: {}, blocks=10))
    run_examples()
    said = capsys.readouterr().out
    assert re.search(r"^\d+ requests/s, p99 [\d.]+ ms \(\w+ samples\)$", said, re.MULTILINE)
    assert re.search(r"^\w+ runs/\S+$", said, re.MULTILINE)


@pytest.mark.slow
def test_the_fixtures_are_used_so(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(BLOCKS[0].partition("\n\n\n")[2].partition("\n\n\n")[0])
    for name in ("old", "new"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    said = run(tmp_path, f"import urllib.request\n\n{FIXTURES}", MADE_UP)
    assert "2 passed" in said, said


@pytest.mark.race
def test_the_examples_run_with_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run_examples()
    assert re.search(r"^at .*: .+\.$", capsys.readouterr().out, re.MULTILINE)
