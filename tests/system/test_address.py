import os
import random
import socket
from pathlib import Path

import pytest

from jissoku.errors import InputError, TargetError
from jissoku.system import address
from jissoku.system.address import HOST, PORTS, Address, free_port, listener_pid, parse


def test_the_same_seed_finds_the_same_port() -> None:
    assert free_port(random.Random(7)) == free_port(random.Random(7))
    assert free_port(random.Random(7)) in PORTS


def test_a_port_in_use_is_passed_over() -> None:
    first = free_port(random.Random(8))
    with socket.socket() as taken:
        taken.bind((HOST, first))
        assert free_port(random.Random(8)) != first


def test_a_port_promised_to_another_target_is_passed_over() -> None:
    first = free_port(random.Random(8))
    assert free_port(random.Random(8), {first}) != first


def test_when_every_port_is_taken_we_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    only = free_port(random.Random(9))
    monkeypatch.setattr(address, "PORTS", range(only, only + 1))
    with socket.socket() as taken:
        taken.bind((HOST, only))
        with pytest.raises(TargetError, match="no free port"):
            free_port(random.Random(9))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("http://127.0.0.1:3000/", Address(port=3000)),
        ("http://localhost", Address(host="localhost", port=80)),
        ("https://[::1]", Address(host="::1", port=443, is_tls=True)),
        ("https://127.0.0.1:8443/", Address(port=8443, is_tls=True)),
        ("unix:/run/a.sock", Address(socket="/run/a.sock")),
    ],
)
def test_an_address_is_read(text: str, found: Address) -> None:
    assert parse(text) == found


@pytest.mark.parametrize(
    "text",
    ["https://", "https:///", "https://user@127.0.0.1/", "https://127.0.0.1:x/", "https://[::1/",
     "https:127.0.0.1", "ftp://127.0.0.1/", "127.0.0.1:3000", "http://127.0.0.1:70000/"],
)  # fmt: skip
def test_what_is_no_address_is_answered_with_every_choice(text: str) -> None:
    with pytest.raises(InputError) as refused:
        parse(text)
    for choice in ("http://127", "https://127", "unix:/path"):
        assert choice in str(refused.value)


def test_a_listener_of_ours_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert listener_pid(Address(port=listener.getsockname()[1])) == os.getpid()


def test_a_unix_listener_is_found(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        assert listener_pid(Address(socket=path)) == os.getpid()


def test_without_a_listener_no_process_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert listener_pid(Address(port=port)) is None


def test_another_machine_is_not_asked_about() -> None:
    assert listener_pid(Address(host="192.0.2.1", port=80)) is None
