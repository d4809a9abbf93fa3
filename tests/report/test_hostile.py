"""Hostile output of a target is displayed without effect."""

import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from jissoku.model import Summary
from jissoku.model.experiment import ExperimentResult
from jissoku.model.summary import ReportWarning, Severity
from jissoku.model.updated import updated
from jissoku.report import experiment, to_html, to_json, to_text
from jissoku.report.bounds import comment
from jissoku.report.format import clean, sanitized
from tests.report import fixture
from tests.report.outcome import outcome

EVIL = "</script><img src=x onerror=alert(1)>`|*[a](b)\x1b[2J\x07\n# not a heading"

CLEANED = [
    ("plain", "plain"),
    ("\x1b[31mred\x1b[0m", "red"),
    ("tab\there", "tab    here"),
    ("bell\x07", "bell\N{REPLACEMENT CHARACTER}"),
    ("lone \x1b escape", "lone \N{REPLACEMENT CHARACTER} escape"),
    ("not utf-8 \udcff", "not utf-8 \N{REPLACEMENT CHARACTER}"),
    ("two\r\nlines\n", "two\nlines\n"),
    ("right\N{RIGHT-TO-LEFT OVERRIDE}left", "right\N{REPLACEMENT CHARACTER}left"),
]


@pytest.mark.parametrize(("given", "expected"), CLEANED)
def test_terminal_sequences_and_broken_text_are_taken_out(given: str, expected: str) -> None:
    assert clean(given) == expected


def _evil() -> Summary:
    """A race in which every string from outside is hostile."""
    summary = fixture.race()

    def rename(name: str) -> str:
        return EVIL if name == "nginx" else name

    arm_summaries = tuple(
        updated(
            known,
            arm=updated(known.arm, name=rename(known.arm.name), version=EVIL, description=EVIL,
                        limitations=EVIL, command=(EVIL,)),
        )
        for known in summary.arm_summaries
    )  # fmt: skip
    arms = tuple(updated(arm, name=rename(arm.name)) for arm in summary.run.arms)
    comparisons = tuple(
        updated(c, arm=rename(c.arm), against=rename(c.against), sentence=EVIL, remarks=(EVIL,))
        for c in summary.comparisons
    )
    return updated(
        summary,
        headline=EVIL,
        run=updated(summary.run, arms=arms),
        arm_summaries=arm_summaries,
        comparisons=comparisons,
        warnings=(
            ReportWarning(severity=Severity.PROBLEM, title=EVIL, text=EVIL, detail=EVIL),
            *summary.warnings,
        ),
    )


class _Elements(HTMLParser):
    """Counts elements and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        names = [name for name, _ in attrs]
        # A style in an attribute is refused by the page's policy, like code in one.
        self.handlers += [name for name in names if name.startswith("on") or name == "style"]
        self.addresses += [
            name
            for name, value in attrs
            if name in {"src", "href", "action", "srcset"} and not (value or "").startswith("#")
        ]


def test_the_page_has_no_element_that_came_from_outside() -> None:
    page = _Elements()
    page.feed(to_html(_evil()))
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert page.handlers == []


def test_the_page_asks_the_network_for_nothing() -> None:
    text = to_html(_evil())
    page = _Elements()
    page.feed(text)
    assert page.addresses == []
    assert "default-src 'none'" in text
    assert "url(" not in text
    assert "@import" not in text


def test_the_terminal_gets_no_control_character() -> None:
    text = to_text(_evil())
    assert not [char for char in text if not char.isprintable() and char != "\n"]


def test_a_line_of_markdown_stays_a_line() -> None:
    text = comment(_evil(), ())
    assert not re.search(r"^# not a heading", text, re.MULTILINE)
    assert not re.search(r"(?<!\\)<img", text)
    rows = [line for line in text.split("\n") if line.startswith("| ")]
    assert all(line.endswith(" |") for line in rows)


@pytest.mark.parametrize("write", [experiment.to_text, experiment.to_markdown, experiment.to_html])
def test_the_workloads_of_an_experiment_are_cleaned(
    write: Callable[[ExperimentResult], str],
) -> None:
    found = outcome()
    text = write(updated(found, summaries={**found.summaries, "evil": _evil()}))
    assert not [char for char in text if not char.isprintable() and char != "\n"]


def test_json_is_valid_utf_8() -> None:
    to_json(_evil()).encode()


def test_scrubbing_leaves_a_clean_summary_alone() -> None:
    summary = fixture.two()
    assert sanitized(summary) == summary
