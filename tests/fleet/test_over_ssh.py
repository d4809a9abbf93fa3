"""The end of `jissoku fleet` on a host, without ssh; and words for shells, and for a file."""

import os
import shlex
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from jissoku.fleet import over_ssh
from jissoku.fleet.fleet_file import Host, read_fleet
from jissoku.fleet.hosts import fleet_text
from jissoku.fleet.over_ssh import KnownAgent, Looked
from jissoku.fleet.ssh import remote_command
from jissoku.measure.machine import machine
from jissoku.system.processes import start_ticks

# The processes that are started are children of this one, and are ended by their numbers.
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")

VERSION = "jissoku of a test"
ADDRESS = "127.0.0.1:7470"

# In place of an agent.
LISTENS = "import signal; print('Listening on x', flush=True); signal.pause()"
FAILS = "import sys; print('jissoku: --listen x: in use', file=sys.stderr); sys.exit(2)"


def stub(program: str) -> tuple[str, ...]:
    return sys.executable, "-S", "-E", "-c", program


def ask(question: over_ssh.Question, version: str = VERSION) -> over_ssh.Answered:
    raw = msgspec.json.encode(over_ssh.Asked(version=version, question=question))
    return msgspec.json.decode(over_ssh.answered(raw, VERSION), type=over_ssh.Answered)


def start(key: str) -> over_ssh.Answered:
    keys = {"token": key, "agent.key": key}
    return ask(
        over_ssh.StartAgent(version=VERSION, address=ADDRESS, keys=keys, options=("--load-to", "x"))
    )


def started(answer: over_ssh.Answered) -> over_ssh.StartedAgent:
    assert not answer.failure
    return msgspec.json.decode(answer.result, type=over_ssh.StartedAgent)


def stop() -> over_ssh.StoppedAgent:
    answer = ask(over_ssh.StopAgent(address=ADDRESS))
    assert not answer.failure
    return msgspec.json.decode(answer.result, type=over_ssh.StoppedAgent)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(over_ssh, "COMMAND", stub(LISTENS))
    yield over_ssh.agent_folder(ADDRESS)
    stop()


def test_nothing_is_done_for_another_version(place: Path) -> None:
    question = over_ssh.StartAgent(
        version=VERSION, address=ADDRESS, keys={"token": "x"}, options=()
    )
    assert ask(question, "jissoku of another one") == over_ssh.Answered(version=VERSION)
    raw = b'{"version": "jissoku of another one", "question": {"type": "unheard-of"}}'
    assert b"failure" not in over_ssh.answered(raw, VERSION).replace(b'"failure":""', b"")
    assert not place.exists()


def test_an_agent_that_ends_at_once_is_a_refusal_with_its_reason(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over_ssh, "COMMAND", stub(FAILS))
    answer = start("x")
    assert (answer.failure, answer.is_input) == ("--listen x: in use", True)
    assert stop().pid is None
    monkeypatch.setattr(over_ssh, "COMMAND", stub(LISTENS))
    assert started(start("x")).is_new, "what was printed before is none of its output"
    assert (place / "agent.log").read_text().count("\n") == 2


def test_an_agent_that_does_not_listen_in_time_is_ended(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over_ssh, "COMMAND", stub("import signal; signal.pause()"))
    monkeypatch.setattr(over_ssh, "START_LIMIT_S", 0.1)
    answer = start("x")
    assert f"not begun to listen within 0.1 s: {place / 'agent.log'}" in answer.failure
    assert stop().pid is None


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("name", ["../key", "a/b", "", "..", "a.b.c"])
def test_keys_are_written_into_the_folder_of_keys_only(name: str) -> None:
    answer = ask(
        over_ssh.StartAgent(version=VERSION, address=ADDRESS, keys={name: "x"}, options=())
    )
    assert answer.failure == f"{name!r} is no name of a file"
    answer = ask(over_ssh.StartAgent(version=VERSION, address="../x:1", keys={}, options=()))
    assert "write HOST:PORT" in answer.failure


def test_ssh_has_to_say_where_the_host_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    assert "(SSH_CONNECTION)" in ask(over_ssh.Look(ports=1)).failure
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.1 5000 127.0.0.1 22")
    found = msgspec.json.decode(ask(over_ssh.Look(ports=3)).result, type=Looked)
    assert found.address == "127.0.0.1"
    assert len(found.ports) == 3
    assert min(found.ports) >= over_ssh.PORT_FIRST


class Agents(RuleBasedStateMachine):
    """At most one agent runs at an address, and none is ended that is not this one."""

    def __init__(self) -> None:
        super().__init__()
        self._patch = pytest.MonkeyPatch()
        self._folder = tempfile.TemporaryDirectory()
        self._patch.setenv("XDG_STATE_HOME", self._folder.name)
        self._patch.setattr(over_ssh, "COMMAND", stub(LISTENS))
        self._runs: dict[int, str] = {}  # The agent that runs, and its keys.
        self._others: list[subprocess.Popen[bytes]] = []

    def teardown(self) -> None:
        stop()
        for other in self._others:
            assert other.poll() is None, "it is none of the agents"
            other.kill()
            other.wait()
        self._patch.undo()
        self._folder.cleanup()

    @rule(key=st.sampled_from("xy"))
    def start(self, key: str) -> None:
        answer = start(key)
        if self._runs and key not in self._runs.values():
            assert answer.is_input
            assert "has another version, other keys or other options" in answer.failure
            return
        found = started(answer)
        assert found.is_new == (not self._runs)
        assert found.is_new or found.pid in self._runs
        self._runs = {found.pid: key}
        keys = over_ssh.agent_folder(ADDRESS) / "keys"
        assert {path.read_text() for path in keys.iterdir()} == {key}
        assert {stat.S_IMODE(path.stat().st_mode) for path in keys.iterdir()} == {0o600}

    @rule()
    def stop(self) -> None:
        assert stop().pid == next(iter(self._runs), None)
        for pid in self._runs:
            os.waitpid(pid, 0)
        self._runs = {}
        keys = over_ssh.agent_folder(ADDRESS) / "keys"
        assert not keys.is_dir() or list(keys.iterdir()) == []

    @precondition(lambda self: self._runs)
    @rule(is_reaped=st.booleans())
    def kill(self, is_reaped: bool) -> None:  # noqa: FBT001 - of hypothesis
        """Its parent may be slow to wait for it."""
        (pid,) = self._runs
        os.kill(pid, signal.SIGKILL)
        flags = os.WEXITED | (0 if is_reaped else os.WNOWAIT)
        os.waitid(os.P_PID, pid, flags)
        self._runs = {}

    @precondition(lambda self: not self._runs and self._file().exists())
    @rule(is_boot=st.booleans())
    def reuse_its_number(self, is_boot: bool) -> None:  # noqa: FBT001 - of hypothesis
        """By another process, later or after the host was started again."""
        other = subprocess.Popen(stub("import signal; signal.pause()"))
        self._others.append(other)
        known = msgspec.json.decode(self._file().read_bytes(), type=KnownAgent)
        ticks = start_ticks(other.pid)
        changed = msgspec.structs.replace(
            known,
            pid=other.pid,
            start_ticks=ticks if is_boot else ticks - 1,
            boot="before" if is_boot else known.boot,
        )
        self._file().write_bytes(msgspec.json.encode(changed))

    def _file(self) -> Path:
        return over_ssh.agent_folder(ADDRESS) / "agent.json"

    @invariant()
    def is_known(self) -> None:
        for pid in self._runs:
            known = msgspec.json.decode(self._file().read_bytes(), type=KnownAgent)
            assert known.pid == pid
            assert known.runs()


@pytest.mark.slow
def test_any_order_of_events_leaves_one_agent_or_none() -> None:
    limits = settings(max_examples=25, stateful_step_count=10)
    run_state_machine_as_test(Agents, settings=limits)


HERE = machine()

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0\n\r"), min_size=1)


@given(path=WORDS, words=st.lists(WORDS, max_size=3))
@settings(max_examples=50)
def test_a_shell_reads_words_as_they_are_written(path: str, words: list[str]) -> None:
    """A path that has a slash is one of the folder in which ssh starts commands."""
    for program, meant in {f"/{path}": f"/{path}", f"~/{path}": f"./{path}"}.items():
        host = Host(name="a", address="h:1", program=program)
        line = remote_command(host, *words).replace("exec ", "printf '%s\\0' ", 1)
        shown = subprocess.run(["/bin/sh", "-c", line], capture_output=True, check=True).stdout
        assert shown.decode().split("\0")[:-1] == [meant, *words]


@pytest.mark.parametrize("shell", ["sh", "bash", "zsh", "fish", "csh"])
def test_the_default_program_is_found_by_every_shell(shell: str, tmp_path: Path) -> None:
    """On the PATH, and else where pip puts it for a user."""
    program = tmp_path / ".local" / "bin" / "jissoku"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "$HOME $*"\n')
    program.chmod(0o755)
    command = remote_command(Host(name="a", address="h:1"), "fleet", "over-ssh")
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    try:
        done = subprocess.run([shell, "-c", command], capture_output=True, env=env, check=False)
    except FileNotFoundError:
        pytest.skip(f"there is no {shell}")
    assert (done.returncode, done.stdout) == (0, f"{tmp_path} fleet over-ssh\n".encode())


@given(name=st.from_regex(r"[a-z][a-z0-9.@-]{0,8}[a-z]", fullmatch=True), ssh=WORDS, program=WORDS)
def test_a_file_is_read_as_it_was_written(name: str, ssh: str, program: str) -> None:
    known = msgspec.structs.replace(HERE, cpu_model=f"{program}\nssh = 'other'")
    looked = Looked(machine=known, address="h", ports=(1,))
    host = Host(name=name, address="h:1", program=program)
    quoted = f"ssh {shlex.quote(ssh)}"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "fleet.toml"
        file.write_text(fleet_text([host], quoted, {name: looked}), encoding="utf-8")
        fleet = read_fleet(file)
    assert (fleet.hosts, fleet.ssh) == ((host,), ("ssh", ssh))
