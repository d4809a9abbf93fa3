"""The process: its arguments, its user, its service manager, its files."""

import os
import signal
import socket
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from tests.serving.server_process import COMMAND, PATIENCE_S, Start, ask

BAD = {
    "nothing to serve": ([], "nothing to serve"),
    "a flag that is none": (["--fixd", "x"], "a similar argument exists: '--fixed'"),
    "a folder that is not there": (["/nowhere/at/all"], "/nowhere/at/all"),
    "a file for a folder": ([__file__], "test_process.py"),
    "a place that is none": (["--fixed", "x", "--listen", "nonsense"], "nonsense"),
    "a folder without a socket": (["--fixed", "x", "--listen", "unix:/nowhere/x"], "/nowhere/x"),
    "no workers": (["--fixed", "x", "--workers", "0"], "from 1 to 1024"),
    "a core that is not there": (["--fixed", "x", "--cores", "4095"], "core 4095"),
    "no such user": (["--fixed", "x", "--user", "no-such-user"], "there is no user"),
    "no such group": (
        ["--fixed", "x", "--user", "root", "--group", "no-such-user"],
        "there is no group",
    ),
    "no such file": (["--config", "/nowhere/at/all.toml"], "/nowhere/at/all.toml"),
    "a pid file in no folder": (
        ["--fixed", "x", "--listen", "127.0.0.1:0", "--pid-file", "/nowhere/at/all"],
        "/nowhere/at/all",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence_and_exit_2(case: str) -> None:
    arguments, sentence = BAD[case]
    run = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (2, "")
    assert sentence in run.stderr
    assert run.stderr.startswith("jissoku serve: ")
    assert run.stderr.count("\n") == 1, run.stderr


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupant:
        port = occupant.getsockname()[1]
        arguments = ["--fixed", "x", "--listen", f"127.0.0.1:{port}"]
        run = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr == (f"jissoku serve: 127.0.0.1:{port} is already in use\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another process")
def test_all_threads_become_another_user(tmp_path: Path, start: Start) -> None:
    pid_file = tmp_path / "pid"
    arguments = ["--fixed", "x", "--listen", "127.0.0.1:0", "--workers", "3"]
    served = start(*arguments, "--user", "12345", "--group", "12346", "--pid-file", str(pid_file))
    port = int(served.wait_for(r"http://127\.0\.0\.1:([0-9]+)/")[1])
    for thread in Path(f"/proc/{served.process.pid}/task").iterdir():
        status = dict(line.split(":\t", 1) for line in (thread / "status").read_text().splitlines())
        assert status["Uid"].split() == ["12345"] * 4
        assert status["Gid"].split() == ["12346"] * 4
        assert status["Groups"].split() == ["12346"]
        assert int(status["CapEff"], 16) == 0
    served.reload()
    assert ask(port) == (200, b"x")
    assert pid_file.stat().st_uid == 12345, "a successor can write it"


def test_the_pid_file_names_the_serving_process(tmp_path: Path, start: Start) -> None:
    pid_file = tmp_path / "pid"
    arguments = ["--fixed", "x", "--listen", "127.0.0.1:0", "--pid-file", str(pid_file)]
    served = start(*arguments, "--stop-window", "0s")
    served.wait_for("listening on")
    served.reload()
    assert int(pid_file.read_text()) == served.process.pid
    served.replace()
    assert served.process.wait(PATIENCE_S) == 0
    assert int(pid_file.read_text()) == served.successors[0]
    served.send_signal(signal.SIGTERM)
    while pid_file.exists():
        os.kill(served.successors[0], 0)


def test_the_mode_of_a_socket_is_as_wanted(tmp_path: Path, start: Start) -> None:
    path = tmp_path / "web.sock"
    served = start("--fixed", "x", "--listen", f"unix:{path}", "--socket-mode", "606")
    served.wait_for("listening on")
    assert stat.S_IMODE(path.stat().st_mode) == 0o606
    assert ask(path) == (200, b"x")


class Manager:
    """The service manager's end of `sd_notify(3)`."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(PATIENCE_S)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)

    def receive(self) -> dict[str, str]:
        """The next message."""
        text = self.socket.recv(4096).decode()
        return dict(line.split("=", 1) for line in text.splitlines())


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_the_service_manager_is_notified(kind: str, tmp_path: Path, start: Start) -> None:
    name = str(tmp_path / "notify")
    manager = Manager(name if kind == "path" else f"@{name}")
    with manager.socket:
        check_notifications(manager, tmp_path, start)


def check_notifications(manager: Manager, tmp_path: Path, start: Start) -> None:
    config = tmp_path / "serve.toml"
    config.write_text("fixed = 'x'\nlisten = '127.0.0.1:0'\n")
    served = start("--config", str(config), NOTIFY_SOCKET=manager.address)
    assert manager.receive() == {"READY": "1", "STATUS": "serving"}
    served.reload()
    reloading = manager.receive()
    assert reloading["RELOADING"] == "1"
    assert int(reloading["MONOTONIC_USEC"]) > 0
    assert manager.receive() == {"READY": "1", "STATUS": "serving"}
    config.write_text("fixed = 1.2.3")
    served.send_signal(signal.SIGHUP)
    assert manager.receive()["RELOADING"] == "1"
    failed = manager.receive()
    assert failed["READY"] == "1"
    assert "line 1" in failed["STATUS"]
    config.write_text("fixed = 'x'\nlisten = '127.0.0.1:0'\n")
    served.replace()
    text = [manager.receive() for _ in range(3)]
    assert {"MAINPID": str(served.successors[0]), "READY": "1"} in text
    assert served.process.wait(PATIENCE_S) == 0
    manager.socket.settimeout(0)
    with pytest.raises(BlockingIOError):
        manager.receive()
    manager.socket.settimeout(PATIENCE_S)
    served.send_signal(signal.SIGTERM)
    while manager.receive().get("STOPPING") != "1":
        pass


# Becomes the server with descriptor 3 open, as systemd starts a service.
ACTIVATE = """
import os, sys
listener = int(sys.argv[1])
os.dup2(listener, 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="web")
os.execv(sys.executable, [sys.executable, "-m", "jissoku", "serve", *sys.argv[2:]])
"""


def activate(listener: socket.socket, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [COMMAND[0], "-c", ACTIVATE, str(listener.fileno()), *arguments],
        pass_fds=[listener.fileno()],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("names_it", [False, True])
def test_a_socket_of_systemd_is_served(names_it: bool) -> None:  # noqa: FBT001 - a parameter
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        # It waits in the queue before there is a server.
        answers: list[tuple[int, bytes]] = []
        early = threading.Thread(target=lambda: answers.append(ask(port)))
        early.start()
        wanted = ["--listen", f"127.0.0.1:{port}"] if names_it else []
        process = activate(listener, "--fixed", "x", "--workers", "3", *wanted)
    try:
        early.join(PATIENCE_S)
        assert [ask(port) for _ in range(20)] + answers == [(200, b"x")] * 21
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_socket_of_systemd_that_is_not_configured_is_rejected() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = activate(listener, "--fixed", "x", "--listen", "127.0.0.1:0")
    said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert "not configured" in said
