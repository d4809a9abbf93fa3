"""The units of systemd, and sockets that it passes: named, in both drivers, kept by reloads."""

import configparser
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.activation import activated
from tests.serving.server_process import COMMAND, PATIENCE_S, Load, ask

ROOT = Path(__file__).parents[2]
UNITS = ROOT / "packaging" / "systemd"


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((UNITS / name).read_text())
    return parser


def test_the_service_serves_the_sockets_of_its_socket_unit() -> None:
    service = unit("jissoku.service")["Service"]
    assert service["ExecStart"].split()[1:] == [
        "serve",
        "--config",
        "/etc/jissoku/serve.toml",
    ]
    assert service["Type"] == "notify"
    assert unit("jissoku.service")["Install"]["Also"] == "jissoku.socket"
    # docs/apps.md: 10 s more than --stop-timeout, whose default is 10 s.
    assert service["TimeoutStopSec"] == "20"
    # With an address of its own, the server would refuse those of the socket unit.
    assert "listen" not in (ROOT / "packaging" / "serve.toml").read_text()


def test_the_hint_for_low_ports_says_what_else_they_need() -> None:
    text = (UNITS / "jissoku.service").read_text()
    assert unit("jissoku.service")["Service"]["PrivateUsers"] == "yes"
    hint = text[text.index("# Ports below 1024") : text.index("CapabilityBoundingSet=")]
    assert "PrivateUsers=no" in hint


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_the_units_and_finds_them_hardened(tmp_path: Path) -> None:
    for name in ("jissoku.service", "jissoku.socket"):
        text = (UNITS / name).read_text().replace("/usr/bin/jissoku", sys.executable)
        (tmp_path / name).write_text(text)
    service = tmp_path / "jissoku.service"
    analyze = shutil.which("systemd-analyze") or ""
    verify = [analyze, "verify", "--man=no", str(service), str(tmp_path / "jissoku.socket")]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    # The exposure of a web server that is hardened by all that it allows; nginx's unit has 9.6.
    security = [analyze, "security", "--offline=true", "--threshold=15", str(service)]
    done = subprocess.run(security, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["epoll", "uring"])
def test_passed_sockets_survive_reload_and_upgrade(driver: str, tmp_path: Path) -> None:
    config = tmp_path / "serve.toml"
    config.write_text(f"fixed = 'x'\nworkers = 2\ndriver = '{driver}'\nstop-window = '0s'\n")
    path = tmp_path / "admin.sock"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(path))
        unix.listen()
        port = tcp.getsockname()[1]
        listeners = {"http": tcp, "admin": unix}
        command = [*COMMAND, "--config", str(config)]
        with activated(listeners, command) as served, Load(port, path) as load:
            served.reload()
            load.wait_for_answers()
            served.replace()
            assert served.process.wait(PATIENCE_S) == 0
            load.wait_for_answers()
        assert path.exists(), "it belongs to systemd"
        # Connections wait in the sockets of systemd until the service has started again.
        with activated(listeners, command):
            assert ask(port)[0] == ask(path)[0] == 200
