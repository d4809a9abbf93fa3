import os
import socket
from pathlib import Path

from jissoku.system.address import Address, listener_pid


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
