"""`docs/serve.md`: its flags exist, its defaults are theirs, its example is valid."""

import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.serving.server_process import COMMAND

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "serve.md").read_text()
STORE = (ROOT / "docs" / "store.md").read_text()
GATEWAY = (ROOT / "docs" / "gateway.md").read_text()


@cache
def groups() -> dict[str, dict[str, str]]:
    """The flags in each group of the help, with their texts."""
    shown = subprocess.run([*COMMAND, "--help-all"], capture_output=True, text=True, check=True)
    parts = re.split(r"^(\w[\w ]*):\n", shown.stdout, flags=re.MULTILINE)[1:]
    found = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        flags = re.split(r"^ {1,6}(?:-\w, )?(--[a-z][a-z-]*)", text, flags=re.MULTILINE)[1:]
        helps = (" ".join(part.split()) for part in flags[1::2])
        found[name] = dict(zip(flags[::2], helps, strict=True))
    return found


def defaults() -> dict[str, str]:
    """The default of each flag in its help; empty if that gives none."""
    helps = {flag: text for group in groups().values() for flag, text in group.items()}
    del helps["--help"], helps["--help-all"]
    found = {flag: re.search(r"\[default: (.*?)\]", text) for flag, text in helps.items()}
    return {flag: match[1] if match else "" for flag, match in found.items()}


def value_of(text: str) -> str:
    """A default that is a number with a unit, as a flag takes it; empty for others."""
    text = text.replace("`", "").replace("no limit", "0").replace(" min", "m")
    match = re.match(r"(\d[\d,]*) ?((?:[KMG]iB|ms|s|m|h)\b)?", text)
    return match[1].replace(",", "") + (match[2] or "") if match else ""


@pytest.mark.parametrize("page", ["serve.md", "apps.md"])
def test_the_defaults_are_those_of_the_flags(page: str) -> None:
    lines = (ROOT / "docs" / page).read_text().splitlines()
    wrong: list[tuple[str, str, str]] = []
    columns: list[str] = []
    compared = 0
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("|"):
            columns = []
        elif not columns:
            columns = [cell.lower() for cell in cells]
        elif "default" in columns and (named := re.findall(r"`(--[a-z-]+)", line)):
            given = cells[columns.index("default")]
            expected = value_of(defaults()[named[0]])
            compared += bool(expected)
            wrong += [(named[0], given, expected)] if value_of(given) != expected else []
    assert wrong == []
    assert compared > 9 or page == "apps.md"


def test_the_page_names_no_flag_that_is_none() -> None:
    named = set(re.findall(r"`(--[a-z][a-z-]+)", PAGE)) - {"--help", "--help-all"}
    assert named - set(defaults()) == set()


@pytest.mark.parametrize("group", ["Reload and end", "TLS", "Where"])
def test_the_page_names_every_flag_of_a_group(group: str) -> None:
    assert {flag for flag in groups()[group] if f"`{flag}" not in PAGE} == set()


def test_the_pages_of_the_gateway_and_of_the_store_name_every_key() -> None:
    folder = ROOT / "crates" / "jissoku-proxy" / "src" / "policy" / "configuration"
    sources = [path.read_text() for path in folder.glob("*.rs") if path.name != "tests.rs"]
    kinds = (
        "array|duration|integer|list|size(?:_within)?|string|switch|table|take|texts?|value|word"
    )
    reads = rf"(?:\.(?:{kinds})\(|statuses\(&mut table, )\s*\"([a-z-]+)\""
    keys = {key for source in sources for key in re.findall(reads, source)}
    assert {"servers", "fields", "statuses", "retry-statuses"} <= keys
    pages = GATEWAY + STORE
    spans = re.findall(r"`([^`]*)`", pages) + re.findall(r"^    .*$", pages, re.MULTILINE)
    code = " ".join(spans)
    assert keys - set(re.findall(r"[a-z]+(?:-[a-z]+)*", code)) == set()


def test_the_page_of_the_gateway_names_every_error_type() -> None:
    source = ROOT / "crates" / "jissoku-server" / "src" / "metrics" / "upstreams.rs"
    listed = re.search(r"REASONS: [^=]*= (\[[^\]]*\])", source.read_text())
    assert listed
    reasons = re.findall(r'"([a-z_]+)"', listed[1])
    assert "proxy_loop_detected" in reasons
    assert [reason for reason in reasons if reason not in GATEWAY] == []


def test_the_example_is_understood(tmp_path: Path) -> None:
    found = re.search(r"```toml\n(folder.*?)```", PAGE, re.DOTALL)
    assert found
    example = tomllib.loads(found[1])
    (tmp_path / "serve.toml").write_text(found[1])
    # All options are valid if the error in the end is about the folder to serve.
    arguments = ["--config", str(tmp_path / "serve.toml"), "--listen", "127.0.0.1:0"]
    arguments += ["--user", "root", "--pid-file", str(tmp_path / "pid")]
    run = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert str(tmp_path / example["folder"]) in run.stderr
