"""Versions and files that policy documents name agree with the sources."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_citation_has_the_version_and_the_licences() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    package = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    assert f"\nversion: {package['version']}\n" in text
    assert re.findall(r"^  - ([A-Z][\w.-]+)$", text, re.MULTILINE) == package["license"].split(
        " OR "
    )


def test_supported_versions_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=")
    assert f"CPython from {oldest}," in (ROOT / "SECURITY.md").read_text()
    for name in project["license-files"]:
        assert (ROOT / name).is_file()
    assert "Private :: Do Not Upload" not in project["classifiers"]
