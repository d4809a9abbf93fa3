"""What shells complete and `man` shows: every verb and every option, in texts that are valid."""

import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from jissoku.cli.commands import HEADINGS, LAB_COMMANDS, commands_below, jissoku
from tests.conftest import JISSOKU

VERBS = [name for heading in HEADINGS for name in commands_below(heading)]


def program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"needs {name}")
    return path


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("completions")
    found = {}
    for shell in ("bash", "zsh", "fish"):
        done = subprocess.run(
            [*JISSOKU, "completions", shell], capture_output=True, text=True, check=True
        )
        found[shell] = folder / shell
        found[shell].write_text(done.stdout)
    return found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("manual") / "man1"
    subprocess.run([*JISSOKU, "man", folder], check=True)
    return folder


def options(verb: str) -> set[str]:
    command = jissoku.get_command(click.Context(jissoku), verb)
    assert command is not None
    found = [it for it in command.params if isinstance(it, click.Option)]
    words = {word for it in found for word in [*it.opts, *it.secondary_opts]}
    return {word for word in words if word.startswith("--")}


def completed(script: Path, *words: str) -> list[str]:
    """What bash offers for the last of the words."""
    code = """
    source "$1"; shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _jissoku jissoku "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf '%s\\n' "${COMPREPLY[@]}"
    """
    command = [program("bash"), "-c", code, "bash", str(script), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.slow
def test_bash_completes_verbs_and_their_options(scripts: dict[str, Path]) -> None:
    script = scripts["bash"]
    assert completed(script, "jissoku", "ser") == ["serve"]
    assert set(VERBS) <= set(completed(script, "jissoku", ""))
    assert "--listen" in completed(script, "jissoku", "serve", "--lis")
    assert completed(script, "jissoku", "completions", "zs") == ["zsh"]
    for verb in (verb for verbs in LAB_COMMANDS.values() for verb in verbs):
        assert options(verb) <= set(completed(script, "jissoku", verb, "--")), verb


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_valid(scripts: dict[str, Path], shell: str) -> None:
    command = [program(shell), "-n", str(scripts[shell])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_fish_completes_options(scripts: dict[str, Path]) -> None:
    code = f"source {scripts['fish']}; complete --do-complete 'jissoku compare --conn'"
    command = [program("fish"), "--no-config", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--connections" in done.stdout


@pytest.mark.slow
def test_every_verb_has_a_page_with_its_options(pages: Path) -> None:
    for verb in VERBS:
        assert (pages / f"jissoku-{verb}.1").is_file(), verb
    text = (pages / "jissoku-compare.1").read_text().replace("\\-", "-")
    assert [word for word in options("compare") if word not in text] == []
    assert "listen" in (pages / "jissoku-serve.1").read_text()


@pytest.mark.slow
def test_every_option_of_a_page_has_its_text_its_default_and_its_group(pages: Path) -> None:
    for page in pages.iterdir():
        _, *options = page.read_text().split("\n.TP\n")
        bare = [
            words for words, _, text in (one.partition("\n") for one in options) if not text.strip()
        ]
        lacking = [words for words in bare if words.startswith("\\fB\\-")]
        assert not lacking, page.name
    text = (pages / "jissoku-compare.1").read_text().replace("\\-", "-")
    assert '.SH "WHAT IS COMPARED"' in text
    assert "Path and query of the request. [default: /]" in text
    assert "The first target is the baseline." in text
    assert "index.html, with 200" in (pages / "jissoku-serve.1").read_text()


@pytest.mark.slow
def test_pages_are_formatted_without_a_warning(pages: Path) -> None:
    files = sorted(pages.iterdir())
    command = [program("groff"), "-man", "-ww", "-z", "-K", "utf8", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.touch()
    done = subprocess.run(
        [sys.executable, "-m", "jissoku", "man", blocker / "man1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == f"jissoku man: {blocker / 'man1'}: Not a directory (os error 20)\n"
