import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from jissoku.errors import InputError
from jissoku.model import Origin, UnavailableTarget
from jissoku.model.run import short_version
from jissoku.system.address import Address
from jissoku.targets import catalogue
from jissoku.targets.command import (
    from_command,
    from_url,
    pinned,
    plain_words,
    prepare_version,
    split_version,
)
from jissoku.targets.placeholders import BuildPaths


def test_a_command_is_split_and_no_shell_sees_it(place: BuildPaths) -> None:
    prepared = from_command(f"mine={sys.executable} 'a b' '$HOME;x' --port={{port}}", place)
    assert prepared.start is not None
    assert prepared.start.command[1:] == ("a b", "$HOME;x", "--port={port}")
    assert (prepared.name, prepared.origin) == ("mine", Origin.COMMAND)
    assert not prepared.listen.unix


def test_a_command_may_listen_on_a_socket(place: BuildPaths) -> None:
    prepared = from_command("mine=python3 {socket}", place)
    assert prepared.listen.unix
    assert not prepared.listen.tcp


def test_the_provenance_of_a_command_covers_the_files_it_names(
    place: BuildPaths, tmp_path: Path
) -> None:
    script = tmp_path / "server.py"
    script.write_text("one")
    before = from_command(f"mine=python3 {script} {{port}}", place)
    script.write_text("two")
    after = from_command(f"mine=python3 {script} {{port}}", place)
    assert before.version.startswith("sha256 ")
    assert before.version != after.version
    assert before.binary_sha256 == after.binary_sha256


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("python3 {port}", "write --cmd"),
        ("=python3 {port}", "is not a name"),
        ("a name=python3 {port}", "is not a name"),
        ("mine=", "write --cmd"),
        ("mine=python3", "write {port} or {socket}"),
        ("mine=python3 {port} {socket}", "write {port} or {socket}"),
        ("mine=python3 'x {port}", "cannot be split"),
        ("mine=cd app && python3 {port}", "'&&' needs one"),
        ("mine=python3 {port} >log", "'>' needs one"),
        ("mine=python3 --home=$HOME {port}", "'$H' needs one"),
        ("mine=no-such-program {port}", "no program 'no-such-program'"),
        ("mine=./absent {port}", "no program './absent'"),
    ],
)
def test_an_invalid_command_is_refused(place: BuildPaths, text: str, why: str) -> None:
    with pytest.raises(InputError) as refused:
        from_command(text, place)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:3000/", Address(port=3000)),
        ("http://127.0.0.1:3000", Address(port=3000)),
        ("http://localhost/", Address(host="localhost", port=80)),
        ("http://[::1]:8080/", Address(host="::1", port=8080)),
        ("https://localhost/", Address(host="localhost", port=443, is_tls=True)),
        ("https://127.0.0.1:8443/", Address(port=8443, is_tls=True)),
        ("unix:/run/a.sock", Address(socket="/run/a.sock")),
    ],
)
def test_a_url_is_an_address(url: str, address: Address) -> None:
    prepared = from_url(f"theirs={url}")
    assert prepared.address == address
    assert (prepared.name, prepared.origin, prepared.start) == ("theirs", Origin.URL, None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("http://127.0.0.1:3000/", "write --url"),
        ("=http://127.0.0.1:3000/", "is not a name"),
        ("theirs", "write --url"),
        ("theirs=ftp://127.0.0.1/", "write http://"),
        ("theirs=http://127.0.0.1:3000/x", "--path"),
        ("theirs=http://127.0.0.1:3000/?x=1", "--path"),
        ("theirs=http://127.0.0.1:99999/", "is not a URL"),
        ("theirs=http://127.0.0.1:x/", "is not a URL"),
        ("theirs=http://me@127.0.0.1/", "write http://"),
        ("theirs=http:///", "write http://"),
        ("theirs=unix:relative.sock", "write unix:"),
    ],
)
def test_an_invalid_url_is_refused(text: str, why: str) -> None:
    with pytest.raises(InputError) as refused:
        from_url(text)
    assert why in str(refused.value)


def test_an_address_is_written_as_the_load_generator_parses_it() -> None:
    assert Address(port=81).url("/x?y=1") == "http://127.0.0.1:81/x?y=1"
    assert Address(host="::1", port=81).url() == "http://[::1]:81/"
    assert Address(socket="/run/a.sock").url("/x") == "unix:/run/a.sock:/x"


@pytest.mark.parametrize("name", ["granian-wsgi", "waitress", "meinheld", "nginx-wsgi"])
def test_a_recipe_that_names_a_version_gets_another_one(name: str) -> None:
    recipe = catalogue.recipes()[name]
    other = pinned(recipe, "0.0.99")
    assert other is not None
    before = [word for step in recipe.build for word in step.command]
    after = [word for step in other.build for word in step.command]
    changed = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    ((old, new),) = changed
    package, _, given = old.partition("==")
    assert new == f"{package}==0.0.99"
    assert given not in other.binary
    assert pinned(other, given) == recipe


@pytest.mark.slow
def test_a_recipe_of_an_installed_program_has_no_other(tmp_path: Path) -> None:
    recipe = catalogue.recipes()["floor"]
    assert pinned(recipe, "1.0") is None
    place = BuildPaths(cache=tmp_path, files=tmp_path)
    refused = prepare_version(recipe, "0.0.1", place)
    assert isinstance(refused, UnavailableTarget)
    assert refused.sentence.startswith("floor@0.0.1 is not available here: its recipe uses")
    installed = prepare_version(recipe, short_version(refused.reason.split(" is ")[-1]), place)
    assert not isinstance(installed, UnavailableTarget)


def test_what_is_asked_for() -> None:
    assert split_version("granian-wsgi@2.7.1") == ("granian-wsgi", "2.7.1")
    assert split_version("go") == ("go", "")
    for word in ("go@", "go@../x", "go@1 2", "go@1==2"):
        with pytest.raises(InputError, match="write TARGET@VERSION"):
            split_version(word)


def test_a_version_is_the_first_word_of_what_is_reported() -> None:
    assert short_version("2.8.7, uvloop 0.23.0") == "2.8.7"
    assert short_version("0.1.0 (release, 8234e4aa73)") == "0.1.0"


WORDS = st.lists(st.text(st.characters(exclude_characters="\0", codec="ascii")), min_size=1)


@given(WORDS)
def test_quoted_words_are_arguments_whatever_is_in_them(words: list[str]) -> None:
    assert plain_words(shlex.join(words), "--build") == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("make release", ["make", "release"]),
        ("sh -c 'a && b'", ["sh", "-c", "a && b"]),
        ('sh -c "a | b; c"', ["sh", "-c", "a | b; c"]),
        (r"echo a\&b \$x", ["echo", "a&b", "$x"]),
        ("cost 5$ {port} *.c #", ["cost", "5$", "{port}", "*.c", "#"]),
        ("", []),
    ],
)
def test_words_are_split_as_by_a_shell(text: str, words: list[str]) -> None:
    assert plain_words(text, "--build") == words


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("true && x", "&&"),
        ("true&&x", "&&"),
        ("a || b", "||"),
        ("a; b", ";"),
        ("a | tee log", "|"),
        ("a >log 2>&1", ">"),
        ("a < b", "<"),
        ("server &", "&"),
        ("(cd a)", "("),
        ("make PREFIX=$HOME", "$H"),
        ('make "PREFIX=${HOME}"', "${"),
        ("echo $(date)", "("),
        ('echo "$(date)"', "$("),
        ("echo `date`", "`"),
        ("echo 'a'\"'\" && 'b'", "&&"),
    ],
)
def test_what_needs_a_shell_is_refused_and_the_message_names_a_command_that_works(
    text: str, operator: str
) -> None:
    with pytest.raises(InputError) as refused:
        plain_words(text, "--build")
    assert f"{operator!r} needs one" in str(refused.value)
    offered = shlex.join(["sh", "-c", text])
    assert offered in str(refused.value)
    assert plain_words(offered, "--build") == ["sh", "-c", text]


@given(st.text(st.sampled_from("ab '\"\\\\&|;$"), max_size=12))
def test_an_accepted_command_has_the_words_that_a_shell_gives_it(text: str) -> None:
    try:
        words = plain_words(text, "--build")
    except InputError:
        return
    if not words or "$" in text:
        return
    script = f"printf '%s\\0' {text}"
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("\0")[:-1] == words
