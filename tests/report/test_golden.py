"""Reports of constructed runs, byte for byte."""

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from jissoku.model import Metric, Summary, Verdict
from jissoku.model.wording import verdict_text
from jissoku.report import to_html, to_json, to_text
from tests.report import fixture

GOLDEN = Path(__file__).parent / "golden"

PROMISED = {"arm", "against", "metric", "load", "ratio", "verdict", "proven", "cross_checks"}

WRITERS: dict[str, Callable[[Summary], str]] = {
    "txt": to_text,
    "narrow.txt": lambda summary: to_text(summary, width=72),
    "json": to_json,
    "html": to_html,
}


# The terminal's text of each, and one page: more of them would not test more.
KEPT = [(name, suffix) for name in fixture.ALL for suffix in ("txt", "narrow.txt")]
KEPT.append(("race", "html"))


# A page's style sheet and script stand in files of their own; the page's Content-Security-Policy
# has their hashes, so that a golden page without them still changes with every byte of them.
INLINED = re.compile(r"^(<(style|script)>)[^<]+(</\2>)$", re.MULTILINE)


def compare_golden(name: str, shown: str, pytestconfig: pytest.Config) -> None:
    path = GOLDEN / name
    kept = INLINED.sub(r"\1...\3", shown).encode()
    if pytestconfig.getoption("--golden", default=False):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(kept)
    assert path.exists(), "python -m pytest tests/report --golden writes it"
    assert kept == path.read_bytes(), f"{path.name} differs; if it should: pytest --golden"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "suffix"), KEPT)
def test_a_report_is_byte_for_byte_what_it_was(
    name: str, suffix: str, pytestconfig: pytest.Config
) -> None:
    compare_golden(f"{name}.{suffix}", WRITERS[suffix](fixture.ALL[name]()), pytestconfig)


@pytest.mark.slow
def test_the_same_records_give_the_same_bytes() -> None:
    once, again = fixture.race(), fixture.race.__wrapped__()
    assert once is not again
    for suffix, write in WRITERS.items():
        assert write(once) == write(again), suffix


@pytest.mark.slow
@pytest.mark.parametrize("name", fixture.ALL)
def test_verdicts_are_the_same_words_everywhere(name: str) -> None:
    summary = fixture.ALL[name]()
    texts = {suffix: " ".join(write(summary).split()) for suffix, write in WRITERS.items()}
    for found in summary.comparisons:
        assert found.verdict in set(Verdict)
        said = verdict_text(found.metric, found.verdict)
        if found.against == summary.run.baseline and found.load == summary.main_load:
            for suffix, text in texts.items():
                # Markup and line breaks may occur in a sentence, never in a verdict.
                expected = str(found.verdict) if suffix == "json" else said
                assert expected in text, f"{expected} is not in {suffix}"


def test_json_can_be_read_back_into_the_same_nouns() -> None:
    summary = fixture.two()
    back = msgspec.json.decode(to_json(summary), type=Summary)
    assert back.headline == summary.headline
    assert [c.verdict for c in back.comparisons] == [c.verdict for c in summary.comparisons]
    assert back.run == summary.run


def test_json_keeps_the_fields_of_a_comparison_that_others_build_on() -> None:
    for name, make in fixture.ALL.items():
        for found in msgspec.json.decode(to_json(make()))["comparisons"]:
            assert found.keys() >= PROMISED, name
            assert found["load"].keys() == {"rate_rps", "level"}
            assert found["metric"] in set(Metric)
            assert found["verdict"] in set(Verdict)
            assert isinstance(found["proven"], bool)
            assert found["ratio"] is None or found["ratio"].keys() >= {"value", "low", "high"}
            for check in found["cross_checks"]:
                assert check.keys() == {"name", "ratio", "agrees"}


def test_the_format_of_the_json_report_is_documented() -> None:
    text = (GOLDEN.parents[2] / "docs" / "FORMAT.md").read_text()
    section = text.partition("## report.json")[2].partition("\n## ")[0]
    for name in (*PROMISED, "rate_rps", "level", "value", "low", "high", "name", "agrees"):
        assert f"`{name}" in section, name
    for value in (*Metric, *Verdict):
        assert f"`{value}`" in section, value
