import sys
from pathlib import Path

import pytest

from jissoku.errors import InputError
from jissoku.model import Origin
from jissoku.system.address import Address
from jissoku.targets.command import from_command, from_url
from jissoku.targets.placeholders import BuildPaths


def test_a_command_is_split_and_no_shell_sees_it(place: BuildPaths) -> None:
    prepared = from_command(f"mine={sys.executable} 'a b' '$HOME;x' --port={{port}}", place)
    assert prepared.start is not None
    assert prepared.start.command[1:] == ("a b", "$HOME;x", "--port={port}")
    assert (prepared.name, prepared.origin) == ("mine", Origin.COMMAND)
    assert not prepared.listens_unix


def test_a_command_may_listen_on_a_socket(place: BuildPaths) -> None:
    prepared = from_command("mine=python3 {socket}", place)
    assert prepared.listens_unix
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
