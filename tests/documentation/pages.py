"""Writes the pages of the site: copies of the documents, and those of the reference.

The documents stay as they are read in the repository: only their links change, because the README
becomes the front page, and what is not in the site is no link.
"""

import re
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

ROOT = Path(__file__).parents[2]

# Documents outside of docs/ that become pages.
OTHERS = (
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "crates/jissoku-handler/README.md",
    "fuzz/README.md",
    "python/jissoku/conformance/README.md",
    "python/jissoku/conformance/gateway/README.md",
    "records/README.md",
    "records/apps/README.md",
    "records/gateways/README.md",
    "records/profiles/README.md",
)

# The headings of the navigation, with titles and pages in their order.
NAVIGATION = {
    "By task": {
        "Twenty minutes: from a slow server to a proven fix": "tutorial",
        "Install": "install",
        "Compare": "commands",
        "Profile and explain": "profile",
        "Load test": "load",
        "Serve": "serve",
        "Serve Python applications": "apps",
        "Handlers in C": "handlers",
        "Share values between processes": "store",
        "From Python": "api",
        "Proxy": "gateway",
        "Continuous integration": "ci",
        "History": "history",
        "Sweep": "sweep",
        "Two hosts": "fleet",
        "Results in a browser": "ui",
    },
    "Reference": {
        "Commands": "reference/commands/index",
        "Configuration file": "reference/configuration",
        "Options of other servers": "reference/migration",
        "Records": "reference/records/index",
        "Files of a run": "FORMAT",
        "Cases of proxies": "gateway-cases",
    },
    "Method": {
        "The method": "METHODOLOGY",
        "Bias": "BIAS",
        "Error rates": "ERROR-RATES",
        "Glossary": "GLOSSARY",
        "Published runs": "records/index",
    },
    "Decisions": {"All decisions": "decisions/index"},
    "Project": {
        "Architecture": "ARCHITECTURE",
        "Contributing": "CONTRIBUTING",
        "Security": "SECURITY",
        "Releases": "release",
        "Changelog": "CHANGELOG",
    },
}
NAMED = {page for pages in NAVIGATION.values() for page in pages.values()} | {"index"}

# What keeps Sphinx from expecting a page in the navigation.
ORPHAN = "---\norphan: true\n---\n"

# A link, or code, which has none.
LINK = re.compile(
    r"^```.*?^```|(?<=\n\n)(?:^    [^\n]*\n)+|`[^`]+`"
    r"|(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)",
    re.MULTILINE | re.DOTALL,
)


def place(document: str) -> str:
    """Where a document, or a file of docs/, is in the site."""
    found = document.removeprefix("docs/")
    return re.sub(r"(^|/)README\.md$", r"\1index.md", found)


def sources() -> dict[str, Path]:
    """All documents by their place in the site."""
    written = [path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")]
    return {place(name): ROOT / name for name in sorted([*OTHERS, *written])}


def rewritten(source: Path, folder: Path) -> str:
    """The text of a document with the links that it has in the site; copies files into `folder`."""
    document = source.relative_to(ROOT).as_posix()
    here = place(document)
    pages = sources()

    def link(match: re.Match[str]) -> str:
        mark, label, target, anchor = match[1], match[2], match[3], match[4] or ""
        if not target or ":" in target:
            # Code, an anchor of the same page, or another host.
            return match[0]
        named = normpath(PurePosixPath(document).parent / target)
        file = ROOT / named
        there = place(named)
        if there not in pages:
            if not named.startswith("docs/") or not file.is_file():
                return label
            (folder / there).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, folder / there)
        if re.fullmatch(r"[\w/.-]+\.md", label):
            # Sphinx puts the title of the page or the section in place of a file's name.
            label = ""
        return f"{mark}[{label}]({relpath(there, PurePosixPath(here).parent)}{anchor})"

    text = LINK.sub(link, source.read_text())
    is_listed = document.startswith("docs/") or here.removesuffix(".md") in NAMED
    return text if is_listed else ORPHAN + text


def write(folder: Path, reference: Mapping[str, str]) -> None:
    """Writes all pages into `folder`, which is emptied before: the documents, and `reference`."""
    shutil.rmtree(folder, ignore_errors=True)
    documents = {name: rewritten(path, folder) for name, path in sources().items()}
    texts = documents | dict(reference)
    names = [name.removesuffix(".md") for name in texts]
    texts["index.md"] += navigation(
        [name for name in names if name in NAMED or (ROOT / "docs" / f"{name}.md").is_file()]
    )
    decisions = [name for name in names if re.match(r"decisions/\d", name)]
    texts["decisions/index.md"] += tree("", dict.fromkeys(decisions, ""))
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def navigation(names: Collection[str]) -> str:
    """Headings with their pages; documents that are not named above come last of the tasks."""
    others = [name for name in names if name not in NAMED and "/" not in name]
    trees = {
        heading: {page: title for title, page in pages.items() if page in names}
        for heading, pages in NAVIGATION.items()
    }
    trees["By task"] |= dict.fromkeys(others, "")
    return "".join(tree(heading, pages) for heading, pages in trees.items())


def tree(caption: str, pages: Mapping[str, str]) -> str:
    """A part of the navigation: pages with their titles, or an empty one for that of the page."""
    rows = [f"{title} </{page}>" if title else f"/{page}" for page, title in pages.items()]
    options = [":hidden:", ":titlesonly:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["\n", "```{toctree}", *options, "", *rows, "```", ""])
