"""One word for each concept: words that were replaced do not come back (docs/GLOSSARY.md)."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from jissoku.cli.commands import LAB_COMMANDS, jissoku

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "python" / "jissoku"
GOLDEN = ROOT / "tests" / "report" / "golden"
TERMS_MAX = 40

# Regular expressions for whole words, and what is written instead.
BANNED = {
    "stopwatch": "load generator",
    "somebody|anybody|everybody|so many|contestants?": "the exact noun, N",
    "whoever|whomever": "the client, the user, the process",
    "befell|befalls?": "happened to",
    "sitting": "run",
    "foretell|foretold": "predict",
    "last words": "stderr",
    "leaves_out|Leaves out:": "limitations",
    "essay": "description",
    "told apart|tells? apart": "distinguished, a difference",
    "cannot be raced": "is not available",
    "duets?": "paired trial",
    "twin": "A/A control",
}

# The one place that explains the method's name in the literature.
ALLOWED = ('"duet" of Bulej', '\\"duet\\" of Bulej', "Duet Benchmarking")


def offences(text: str) -> Iterator[str]:
    for allowed in ALLOWED:
        text = text.replace(allowed, "")
    for word, instead in BANNED.items():
        for match in re.finditer(rf"\b(?:{word})\b", text, re.IGNORECASE):
            line = text.count("\n", 0, match.start()) + 1
            yield f"line {line}: {match[0]!r}; write {instead}"


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_sources_use_the_terms(path: Path) -> None:
    assert list(offences(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("name", sorted(LAB_COMMANDS))
def test_help_uses_the_terms(name: str) -> None:
    shown = CliRunner().invoke(jissoku, [name, "--help"])
    assert shown.exit_code == 0
    assert list(offences(shown.output)) == []


@pytest.mark.parametrize("path", sorted(GOLDEN.iterdir()), ids=lambda path: path.name)
def test_reports_use_the_terms(path: Path) -> None:
    assert list(offences(path.read_text(encoding="utf-8"))) == []


def test_the_glossary_is_short_and_sorted() -> None:
    text = (ROOT / "docs" / "GLOSSARY.md").read_text(encoding="utf-8")
    terms = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")][1:]
    assert 0 < len(terms) <= TERMS_MAX
    assert terms == sorted(terms, key=str.casefold)


def test_every_option_has_a_help_text() -> None:
    context = click.Context(jissoku)
    for name in LAB_COMMANDS:
        command = jissoku.get_command(context, name)
        assert command is not None, name
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.help, f"{name} {option.opts}"
