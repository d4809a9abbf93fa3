"""Agents that are started over ssh: by real servers of ssh, on loopback."""

import os
import signal
import socket
import stat
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from jissoku.errors import InputError
from jissoku.fleet import keys, ssh
from jissoku.fleet.fleet_file import read_fleet
from jissoku.system.processes import PROC
from tests.conftest import JISSOKU
from tests.fleet.ssh_hosts import NAMES, SshHosts, ssh_hosts
from tests.fleet.test_two_hosts import eventually

pytestmark = pytest.mark.slow

CASES = tomllib.loads(Path(__file__).with_name("ssh_refusals.toml").read_text(encoding="utf-8"))


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshHosts]:
    (tmp_path / "ssh").mkdir()
    (tmp_path / "client").mkdir()
    monkeypatch.chdir(tmp_path / "client")
    monkeypatch.setenv("COLUMNS", "300")  # Of tables.
    with ssh_hosts(tmp_path / "ssh") as found:
        yield found


def test_three_hosts_from_names_to_agents_and_back(hosts: SshHosts) -> None:
    done = hosts.init()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"a: {hosts.addresses['a'][0]}:")
    folder = Path("fleet.keys")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}

    done = hosts.fleet("up")
    assert (done.returncode, done.stderr) == (0, "")
    agents = {name: hosts.agent(name) for name in NAMES}
    for name, agent in agents.items():
        assert f"process {agent.pid}; its output: {hosts.agent_folder(name)}" in done.stdout
        assert os.getsid(agent.pid) == agent.pid, "the end of the connection does not concern it"
        private = hosts.agent_folder(name) / "keys"
        assert {path.name for path in private.iterdir()} == {
            *("ca.crt", "token", "agent.crt", "agent.key")
        }
        assert {stat.S_IMODE(path.stat().st_mode) for path in private.iterdir()} == {0o600}
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
    certificates = {
        (hosts.agent_folder(name) / "keys" / "agent.crt").read_bytes() for name in NAMES
    }
    assert len(certificates) == len(NAMES), "no host can pass for another one"

    done = hosts.fleet("up")
    assert done.returncode == 0
    assert done.stdout.count("runs already") == len(NAMES)
    assert {name: hosts.agent(name) for name in NAMES} == agents

    done = hosts.fleet("hosts")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()[1:4]] == list(NAMES)
    assert done.stdout.count("free") == len(NAMES)
    assert "3 of 3 hosts have jissoku " in done.stdout

    done = hosts.fleet("down")
    assert done.returncode == 0
    for name, agent in agents.items():
        assert f"{name}: ended, process {agent.pid}" in done.stdout
        assert not agent.runs()
        assert list((hosts.agent_folder(name) / "keys").iterdir()) == []
    done = hosts.fleet("down")
    assert (done.returncode, done.stdout.count("no agent of this fleet ran")) == (0, len(NAMES))


def test_no_secret_is_in_a_command_line_an_environment_or_the_output(hosts: SshHosts) -> None:
    """ssh is wrapped by a program that notes what is to be seen of it."""
    seen = hosts.place / "seen"
    wrapper = hosts.place / "wrapper"
    wrapper.write_text(f'#!/bin/sh\nenv >>{seen}\necho "$@" >>{seen}\nexec {hosts.ssh} "$@"\n')
    wrapper.chmod(0o755)
    done = hosts.fleet("init", "a", "--ssh", str(wrapper))
    assert done.returncode == 0, done.stderr
    up = hosts.fleet("up")
    assert up.returncode == 0, up.stderr
    process = PROC / str(hosts.agent("a").pid)
    texts = [
        *(seen.read_text(), done.stdout, up.stdout, up.stderr),
        *((process / name).read_text() for name in ("cmdline", "environ")),
        (hosts.agent_folder("a") / "agent.log").read_text(),
        (hosts.agent_folder("a") / "agent.json").read_text(),
    ]
    assert "over-ssh" in texts[0]
    for path in Path("fleet.keys").iterdir():
        # A certificate is no secret; keys and the token are.
        if path.suffix != ".crt":
            for line in path.read_text().splitlines():
                if not line.startswith("-----"):
                    assert all(line not in text for text in texts), path.name


def test_an_agent_that_was_killed_is_started_again(hosts: SshHosts) -> None:
    assert hosts.init("a").returncode == 0
    assert hosts.fleet("up").returncode == 0
    first = hosts.agent("a")
    os.kill(first.pid, signal.SIGKILL)
    eventually(lambda: not first.runs())
    done = hosts.fleet("hosts")
    assert done.returncode == 1
    assert "cannot be reached: Connection refused" in done.stderr
    done = hosts.fleet("up")
    assert (done.returncode, done.stderr) == (0, "")
    assert "a: runs on " in done.stdout
    assert hosts.agent("a").pid != first.pid


def test_a_doctor_names_what_would_spoil_a_measurement(hosts: SshHosts) -> None:
    assert hosts.init("a", "b").returncode == 0
    assert hosts.fleet("up").returncode == 0
    done = hosts.fleet("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    shown = " ".join(done.stdout.split())
    assert "fine shortest round trips a from here " in shown
    assert " to b " in shown
    assert "warning machine a b one has a, b they measure one after the other" in shown
    agent = hosts.agent("b")
    os.kill(agent.pid, signal.SIGKILL)
    eventually(lambda: not agent.runs())
    done = hosts.fleet("doctor")
    assert done.returncode == 1
    assert "b: the agent on " in done.stderr
    assert "bad path to b a Connection refused let it connect to " in " ".join(done.stdout.split())


def test_new_keys_need_a_new_start(hosts: SshHosts) -> None:
    assert hosts.init("a").returncode == 0
    assert hosts.fleet("up").returncode == 0
    Path("fleet.keys").rename("old.keys")
    assert hosts.fleet("init").returncode == 0
    done = hosts.fleet("up")
    assert done.returncode == 2
    assert (
        "has another version, other keys or other options: `jissoku fleet down` ends it"
        in done.stderr
    )
    assert hosts.fleet("down").returncode == 0
    assert hosts.fleet("up").returncode == 0
    assert hosts.fleet("hosts").returncode == 0


def test_what_a_shell_prints_at_its_start_is_no_answer(hosts: SshHosts) -> None:
    hosts.write_program("a", f'echo "Welcome to $USER"; exec {hosts.program("b")} "$@"')
    done = hosts.init("a")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_program_may_be_named_by_its_path(hosts: SshHosts) -> None:
    place = hosts.place / "it's here; $HOME"
    hosts.program("a").parent.rename(place)
    words = ("a", "--ssh", hosts.ssh, "--program", str(place / "jissoku"))
    done = hosts.fleet("init", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert hosts.fleet("up").returncode == 0


def test_hosts_that_are_one_have_ports_of_their_own(hosts: SshHosts) -> None:
    config = hosts.place / "config"
    config.write_text(config.read_text().replace("Host a\n", "Host a same\n"))
    assert hosts.init("a", "same").returncode == 0
    ports = [
        host["address"].rpartition(":")[2]
        for host in tomllib.loads(Path("fleet.toml").read_text())["host"]
    ]
    assert len(set(ports)) == 2
    assert hosts.fleet("up").returncode == 0
    done = hosts.fleet("hosts")
    assert "2 of 2 hosts have " in done.stdout


def test_an_interruption_ends_what_waits_for_a_host(hosts: SshHosts) -> None:
    begun = hosts.place / "begun"
    os.mkfifo(begun)
    hosts.write_program("a", f"echo >{begun}; exec sleep 5")
    words = [*JISSOKU, "fleet", "init", "a", "--ssh", hosts.ssh]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert begun.read_text() == "\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stderr is not None
        assert process.stderr.read().strip() == b""
    assert list(Path().iterdir()) == []


class Faults:
    """What is made to happen, by name; what it needs ends with the test."""

    def __init__(self, hosts: SshHosts, monkeypatch: pytest.MonkeyPatch, held: ExitStack) -> None:
        self._hosts = hosts
        self._patch = monkeypatch
        self._held = held

    def no_known_host(self) -> None:
        (self._hosts.place / "known_hosts").write_text("")

    def another_host_key(self) -> None:
        known = self._hosts.place / "known_hosts"
        other = (self._hosts.place / "id.pub").read_text().split()[1]
        lines = [line.split() for line in known.read_text().splitlines()]
        known.write_text("".join(f"{where} {kind} {other}\n" for where, kind, *_ in lines))

    def no_authorized_key(self) -> None:
        (self._hosts.place / "authorized_keys").write_text("")

    def _config(self, old: str, new: str) -> None:
        config = self._hosts.place / "config"
        assert old in config.read_text()
        config.write_text(config.read_text().replace(old, new))

    def another_port(self) -> None:
        # Bound and not listening: nothing else gets it meanwhile.
        taken = self._held.enter_context(socket.socket())
        taken.bind((self._hosts.addresses["b"][0], 0))
        port = self._hosts.addresses["b"][1]
        self._config(f"Port {port}\n", f"Port {taken.getsockname()[1]}\n")

    def no_such_host(self) -> None:
        self._config(f"HostName {self._hosts.addresses['b'][0]}", "HostName no-such-host.invalid")

    def no_ssh(self) -> None:
        file = Path("fleet.toml")
        file.write_text(file.read_text().replace(self._hosts.ssh, "no-such-ssh"))

    def no_program(self) -> None:
        self._hosts.program("b").unlink()

    def no_executable(self) -> None:
        self._hosts.program("b").chmod(0o644)

    def _program(self, version: str, otherwise: str) -> None:
        text = f'if [ "$1" = --version ]; then {version}; else {otherwise}; fi'
        self._hosts.write_program("b", text)

    def no_laboratory(self) -> None:
        lacks = "echo \"jissoku: the laboratory needs msgspec: pip install 'jissoku[lab]'\" >&2"
        self._program(f'exec {self._hosts.program("a")} "$@"', f"{lacks}; exit 2")

    def another_version(self) -> None:
        self._program("exit 9", 'echo \'{"version":"jissoku 0.0.1 (release, 0)"}\'')

    def older_version(self) -> None:
        self._program("echo 'jissoku 0.0.1 (release, 0)'", "echo 'No such command' >&2; exit 2")

    def no_answer(self) -> None:
        self._patch.setattr(ssh, "ANSWER_S", 0.5)
        self._hosts.write_program("b", "exec sleep 3")

    def port_in_use(self) -> None:
        address = tomllib.loads(Path("fleet.toml").read_text())["host"][0]["address"]
        host, _, port = address.rpartition(":")
        self._held.enter_context(socket.create_server((host, int(port))))

    def closed_port(self) -> None:
        def no_answer(*_: object) -> None:
            raise TimeoutError("timed out")

        self._patch.setattr("jissoku.fleet.connecting.socket.create_connection", no_answer)

    def wrong_option(self) -> None:
        file = Path("fleet.toml")
        option = 'name = "b"\nagent = "--allow-all"\n'
        file.write_text(file.read_text().replace('name = "b"\n', option))

    def expired(self) -> None:
        in_eight_days = keys._now_s() + 8 * 86_400
        self._patch.setattr(keys, "_now_s", lambda: in_eight_days)

    def no_keys(self) -> None:
        Path("fleet.keys").rename("elsewhere")

    def open_keys(self) -> None:
        Path("fleet.keys").chmod(0o755)

    def another_address(self) -> None:
        file = Path("fleet.toml")
        own = self._hosts.addresses["b"][0]
        file.write_text(file.read_text().replace(f"{own}:", "10.0.0.9:"))

    def no_file(self) -> None:
        Path("fleet.toml").unlink(missing_ok=True)

    def nothing(self) -> None:
        """All is as it was written."""


@pytest.mark.parametrize("case", CASES["refusal"], ids=lambda case: case["name"])
def test_a_refusal_names_host_cause_and_remedy(
    hosts: SshHosts, monkeypatch: pytest.MonkeyPatch, case: dict[str, Any]
) -> None:
    with ExitStack() as held:
        faults = Faults(hosts, monkeypatch, held)
        words = tuple(case["words"])
        is_new = words == ("init", "b")
        if not is_new:
            assert hosts.init("b").returncode == 0
        getattr(faults, case["fault"])()
        done = hosts.init("b") if is_new else hosts.fleet(*words)
    for text in case["says"]:
        assert text.replace("{address}", hosts.addresses["b"][0]) in done.stderr
    assert done.returncode == case["code"]
    if is_new:
        assert list(Path().iterdir()) == []


def test_a_host_that_refuses_leaves_nothing_written(hosts: SshHosts) -> None:
    hosts.program("b").unlink()
    hosts.program("c").unlink()
    done = hosts.init()
    assert done.returncode == 2
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["jissoku", "c"]
    assert done.stderr.startswith("jissoku: b: has no program jissoku")
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("case", CASES["file"], ids=lambda case: case["says"].partition("`: ")[2])
def test_a_file_that_is_wrong_is_refused_with_the_line_and_the_key(
    tmp_path: Path, case: dict[str, str]
) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text(case["text"])
    with pytest.raises(InputError) as refused:
        read_fleet(file)
    assert case["says"] in str(refused.value)
