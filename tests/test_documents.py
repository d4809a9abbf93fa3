"""The documents name only files, links and commands that exist."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", path.read_text())
    lost = [t for t in targets if "://" not in t and not (path.parent / t).exists()]
    assert not lost, f"{path.name} links to {lost}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_named_files_exist(path: Path) -> None:
    named = re.findall(r"`((?:crates|python|docs|tests|conformance)/[\w./-]*)`", path.read_text())
    lost = [name for name in named if "NAME" not in name and not (ROOT / name).exists()]
    assert not lost, f"{path.name} names {lost}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_named_verbs_of_make_exist(path: Path) -> None:
    verbs = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:`|^    )make ([a-z-]+)", path.read_text(), re.MULTILINE))
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
