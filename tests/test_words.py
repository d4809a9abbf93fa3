"""One term for each concept: replaced words do not return (docs/GLOSSARY.md)."""

import re
import subprocess
import sys
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

# Regular expressions for whole words, and what is written instead. The words of an identifier are
# words: `last_words` and `LastWords` are found, too.
BANNED = {
    "stopwatch": "load generator",
    "nobody|somebody|anybody|everybody|everyone|someone|anyone": "the exact noun",
    "whoever|whomever|whom": "the client, the user, the process",
    "so many": "N, this many",
    "contestants?": "target",
    "befell|befalls?": "happened to",
    "sitting": "run",
    "foretell|foretold": "predict",
    "last words": "stderr",
    "leaves out:": "limitations",
    "essay": "description",
    "told apart|tells? apart": "distinguished, a difference",
    "cannot be raced": "is not available",
    "duets?": "paired trial",
    "twins?": "A/A control, copy, scalar version",
    "lanes?|laps?": "target, measurement, load run",
    "doors?": "listener, address",
    "crowds?": "clients, connections",
    "strangers?": "external server, another process",
    "witness(es)?": "stall monitor",
    "errands?|curiosity|desk|satchel|parcel": "the exact noun",
    "census|tally": "counter, limiter",
    "parting|farewell": "shutdown, close_notify",
    "receipt": "provenance",
    "gates?": "check",
    "heeds?": "handle, record",
    "in vain": "spurious, without a result",
    "planted": "injected",
    "nought": "zero",
    "told|tells?|telling": "report, print, show; distinguish",
    "heard|hears?|hearing": "receive; is called when",
}

# The one place that explains the method's name in the literature, a user of Unix systems, an option
# of systemctl, a method of Python files, a case whose name is in kept records, and a crate.
ALLOWED = (
    '"duet" of Bulej',
    '\\"duet\\" of Bulej',
    "&#34;duet&#34; of Bulej",
    "Duet Benchmarking",
    '"nobody", "www-data"',
    "--kill-whom",
    'intern!(python, "tell")',
    'name = "the_client_is_told_to_the_application"',
    "`heed`",
)

DOCUMENTS = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("records/**/*.md"),
    *ROOT.glob("crates/**/*.md"),
    *PACKAGE.rglob("*.md"),
    ROOT / "fuzz" / "README.md",
    ROOT / "Makefile",
    ROOT / ".ci" / "run",
]
DATA = [
    *ROOT.glob("tests/**/*.toml"),
    *PACKAGE.rglob("*.toml"),
]
TESTS = [path for path in ROOT.glob("tests/**/*.py") if path != Path(__file__)]
NATIVE_SOURCES = [*ROOT.glob("crates/**/*.rs"), *ROOT.glob("fuzz/targets/*.rs")]
NATIVE_COMMANDS = (
    "serve --help-all",
    "lab serve --help-all",
    "load --help-all",
    "floor --help",
    "oracle --help",
)
VERBS = sorted(name for commands in LAB_COMMANDS.values() for name in commands)


def offences(text: str) -> Iterator[str]:
    for allowed in ALLOWED:
        text = text.replace(allowed, "")
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).replace("_", " ")
    for word, instead in BANNED.items():
        for match in re.finditer(rf"\b(?:{word.replace('_', ' ')})\b", plain, re.IGNORECASE):
            line = plain.count("\n", 0, match.start()) + 1
            yield f"line {line}: {match[0]!r}; write {instead}"


def offences_of(path: Path) -> list[str]:
    return list(offences(path.read_text(encoding="utf-8")))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=name)
def test_sources_use_the_terms(path: Path) -> None:
    assert offences_of(path) == []


@pytest.mark.parametrize("path", sorted(NATIVE_SOURCES), ids=name)
def test_native_sources_use_the_terms(path: Path) -> None:
    assert offences_of(path) == []


@pytest.mark.parametrize("path", sorted(DOCUMENTS), ids=name)
def test_documents_use_the_terms(path: Path) -> None:
    assert offences_of(path) == []


@pytest.mark.parametrize("path", sorted(DATA), ids=name)
def test_data_files_use_the_terms(path: Path) -> None:
    assert offences_of(path) == []


@pytest.mark.parametrize("path", sorted(TESTS), ids=name)
def test_tests_use_the_terms(path: Path) -> None:
    assert offences_of(path) == []


@pytest.mark.parametrize("command", VERBS)
def test_help_uses_the_terms(command: str) -> None:
    shown = CliRunner().invoke(jissoku, [command, "--help"])
    assert shown.exit_code == 0
    assert list(offences(shown.output)) == []


@pytest.mark.parametrize("command", NATIVE_COMMANDS)
def test_help_of_native_commands_uses_the_terms(command: str) -> None:
    words = [sys.executable, "-m", "jissoku", *command.split()]
    shown = subprocess.run(words, capture_output=True, text=True, timeout=30, check=True)
    assert list(offences(shown.stdout)) == []


@pytest.mark.parametrize("path", sorted(GOLDEN.iterdir()), ids=lambda path: path.name)
def test_reports_use_the_terms(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert list(offences(text)) == []
    assert not re.search(r"\b(slower|faster) than\b", text), "a cost is lower or higher"


def test_the_glossary_is_short_and_sorted() -> None:
    text = (ROOT / "docs" / "GLOSSARY.md").read_text(encoding="utf-8")
    terms = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")][1:]
    assert 0 < len(terms) <= TERMS_MAX
    assert terms == sorted(terms, key=str.casefold)


def test_every_option_has_a_help_text() -> None:
    context = click.Context(jissoku)
    for verb in VERBS:
        command = jissoku.get_command(context, verb)
        assert command is not None, verb
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.help, f"{verb} {option.opts}"
