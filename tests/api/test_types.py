"""A typed program that uses each function."""

from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[2]

PROGRAM = """
from collections.abc import Callable

import jissoku
from jissoku import chart

def app(environ: dict[str, object], start_response: Callable[..., object]) -> list[bytes]:
    start_response("200 OK", [])
    return []

with jissoku.serve_in_thread(app) as server:
    loaded: jissoku.LoadResult = jissoku.load(server.url, rate=100, slo="p99<5ms", header=["A: b"])
p99: float = loaded.latency["p99"].value_s
first: str = loaded.errors["timeout"].example
compared: jissoku.ComparisonResult = jissoku.compare("a", "b", time=30, fail_if="cost(a) > cost(b)")
ratios: list[float] = [pair.ratio.value for pair in compared.pairs if pair.ratio is not None]
proven: bool = compared.pairs[0].proven
sentence: str = compared.pairs[0].sentence
drawn: str = chart.line([1, None, 2.5], labels=["a", "b"], title="t", size=(300, 200))
drawn = chart.bar({"a": [1.5, 2.5], "b": [3.5]}) + chart.ring({"a": 1}, in_page=True)
reveal_type(compared.bounds[0].status)
jissoku.load(5)
"""


@pytest.mark.slow
def test_types_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (tmp_path / "program.py").write_text(PROGRAM)
    said, errors, code = api.run(["--strict", str(tmp_path / "program.py")])
    assert (code, errors) == (1, ""), said
    note, refusal, _ = said.splitlines()
    assert "jissoku.model.summary.BoundStatus" in note
    assert 'Argument 1 to "load" has incompatible type "int"; expected "str"' in refusal
