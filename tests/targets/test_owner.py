import os
import socket
from pathlib import Path

from jissoku.targets.address import Address
from jissoku.targets.owner import owner


def test_a_listener_of_ours_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert owner(Address(port=listener.getsockname()[1])) == os.getpid()


def test_a_unix_listener_is_found(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        assert owner(Address(socket=path)) == os.getpid()


def test_nobody_is_found_where_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert owner(Address(port=port)) is None


def test_another_machine_is_not_asked_about() -> None:
    assert owner(Address(host="192.0.2.1", port=80)) is None
