"""The documents name only files, links and commands that exist."""

import itertools
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.documentation import commands, pages

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted({*ROOT.glob("*.md"), *pages.sources().values()})


@cache
def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, which are numbered from the second of a name on."""
    text = re.sub(r"^(```+).*?^\1", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    found: dict[str, int] = {}
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w -]", "", plain).replace(" ", "-")
        number = found[anchor] = found.get(anchor, -1) + 1
        if number:
            found[f"{anchor}-{number}"] = 0
    return set(found)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    lost = []
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", path.read_text()):
        file = path.parent / target if target else path
        if "://" in target:
            continue
        if not file.exists() or (anchor and anchor not in anchors(file.resolve())):
            lost.append(f"{target}#{anchor}")
    assert not lost, f"{path.name} links to {lost}"


@pytest.fixture(scope="module")
def options() -> dict[str, set[str]]:
    """The words of the options of each command, from the definitions."""
    return {
        commands.title(name).removeprefix("jissoku "): {
            word
            for _, group in commands.sections(text)
            for words, _, _ in group
            for word in re.findall(r"(?<![\w-])--?\w[\w-]*", words.partition("<")[0])
        }
        for name, text in commands.manual().items()
    }


def written_commands(path: Path) -> Iterator[list[str]]:
    """The arguments of `jissoku` wherever a document has it as code."""
    text = re.sub(r"\\\n\s*", " ", path.read_text())
    yield from map(shlex.split, re.findall(r"`jissoku ([^`]+)`", text))
    for fenced, indented in re.findall(
        r"^```.*\n((?:.*\n)*?)```|((?:^    .*\n)+)", text, re.MULTILINE
    ):
        # What follows two spaces says what the command does. Other lines than those of a prompt are
        # output.
        prompt = r"\$ " if "$ " in fenced else ""
        command = rf"^ *{prompt}(?:\S*/)?jissoku ((?:\S| (?! ))+)"
        yield from map(shlex.split, re.findall(command, fenced or indented, re.MULTILINE))


# Changes and decisions also name what was before.
@pytest.mark.parametrize(
    "path",
    [path for path in DOCUMENTS if path.name != "CHANGELOG.md" and path.parent.name != "decisions"],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_commands_have_the_options_that_are_written(
    path: Path, options: dict[str, set[str]]
) -> None:
    unknown = []
    for words in written_commands(path):
        name = " ".join(words[:2]) if words[0] in {"floor", "lab"} else words[0]
        name = "jissoku" if name.startswith("-") else name
        given = {
            word.partition("=")[0]
            for word in itertools.takewhile(lambda word: word not in {"|", ">", "--"}, words)
            if re.fullmatch(r"--[a-z][\w-]*(=.*)?|-[A-Za-z]", word)
        }
        if name not in options or not given <= options[name]:
            unknown.append(words)
    assert not unknown


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_named_files_exist(path: Path) -> None:
    named = re.findall(r"`((?:crates|python|docs|tests|conformance)/[\w./-]*)`", path.read_text())
    lost = [name for name in named if "NAME" not in name and not (ROOT / name).exists()]
    assert not lost, f"{path.name} names {lost}"


@pytest.mark.parametrize(
    "path",
    [*DOCUMENTS, *(ROOT / ".github" / "workflows").iterdir()],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_named_verbs_of_make_exist(path: Path) -> None:
    verbs = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:`|^    |run: )make ([a-z-]+)", path.read_text(), re.MULTILINE))
    assert named <= verbs, f"{path.name} names {named - verbs}"


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text()
    pages = sorted(page.name for page in folder.glob("[0-9]*.md"))
    assert [page for page in pages if page not in index] == []
    for page in pages:
        text = (folder / page).read_text()
        headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
        assert headings == ["Context", "Decision", "Consequences"], page


def test_versions_agree() -> None:
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text())
    assert manifest["workspace"]["package"]["version"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["dynamic"] == ["version"], "one number, in Cargo.toml"


@pytest.mark.slow
def test_no_path_of_this_machine_is_in_the_tree() -> None:
    suffixes = {".py", ".rs", ".toml", ".md", ".html", ".json", ".jsonl", ".txt"}
    words = (f"{ROOT}/", f"{Path.home()}/")
    found = [
        str(path.relative_to(ROOT))
        for place in ("crates", "python", "tests", "docs", "conformance")
        for path in (ROOT / place).rglob("*")
        if path.suffix in suffixes and any(word in path.read_text() for word in words)
    ]
    assert not found, f"a path of this machine stands in {found}"
