"""Reports of made-up runs, byte for byte."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

from jissoku.model import Summary, Verdict
from jissoku.report import to_html, to_json, to_markdown, to_text
from tests.report import fixture

GOLDEN = Path(__file__).parent / "golden"
LIBRARY = "/* the plotting library */"

WRITERS: dict[str, Callable[[Summary], str]] = {
    "txt": to_text,
    "narrow.txt": lambda summary: to_text(summary, width=72),
    "md": to_markdown,
    "json": to_json,
    "html": lambda summary: to_html(summary, library=LIBRARY),
}


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("name", fixture.ALL)
def test_a_report_is_byte_for_byte_what_it_was(
    name: str, suffix: str, pytestconfig: pytest.Config
) -> None:
    path = GOLDEN / f"{name}.{suffix}"
    shown = WRITERS[suffix](fixture.ALL[name]()).encode()
    if pytestconfig.getoption("--golden", default=False):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(shown)
    assert path.exists(), "python -m pytest tests/report --golden writes it"
    assert shown == path.read_bytes(), f"{path.name} differs; if it should: pytest --golden"


def test_the_same_records_give_the_same_bytes() -> None:
    once, again = fixture.race(), fixture.race.__wrapped__()
    assert once is not again
    for suffix, write in WRITERS.items():
        assert write(once) == write(again), suffix


def test_the_whole_page_is_the_golden_one_with_the_library_in_it() -> None:
    page = to_html(fixture.two())
    assert page.count(get_plotlyjs()) == 1
    assert page.replace(get_plotlyjs(), LIBRARY) == to_html(fixture.two(), library=LIBRARY)


@pytest.mark.parametrize("name", fixture.ALL)
def test_verdicts_are_the_same_words_everywhere(name: str) -> None:
    summary = fixture.ALL[name]()
    texts = {suffix: " ".join(write(summary).split()) for suffix, write in WRITERS.items()}
    for found in summary.comparisons:
        assert found.verdict in set(Verdict)
        if found.against == summary.run.baseline:
            for suffix, text in texts.items():
                # Markup and line breaks may stand inside a sentence, never inside a verdict.
                assert str(found.verdict) in text, f"{found.verdict} is not in {suffix}"


def test_json_can_be_read_back_into_the_same_nouns() -> None:
    summary = fixture.two()
    back = msgspec.json.decode(to_json(summary), type=Summary)
    assert back.headline == summary.headline
    assert [c.verdict for c in back.comparisons] == [c.verdict for c in summary.comparisons]
    assert back.run == summary.run
