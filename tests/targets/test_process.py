import os
import resource
import signal
import socket
import sys
from pathlib import Path

import pytest

from jissoku.errors import TargetError
from jissoku.model import Workload
from jissoku.targets import launch, process
from jissoku.targets.command import from_command, from_url
from jissoku.targets.placeholders import BuildPaths
from jissoku.targets.process import LaunchOptions, RunningTarget
from tests.targets.conftest import SERVER, Starts, placed, script

PLAIN = "serve(listen())"

# The parent ends only when the child says that it listens, so that there is something to find.
FORKED = """
reader, writer = os.pipe()
if os.fork():
    os.close(writer)
    os.read(reader, 1)
    os._exit(0)
{child}
listener = listen()
os.write(writer, b"x")
serve(listener)
"""


def members(running: RunningTarget) -> set[int]:
    assert running._child is not None
    return running._child.session.members()


def wait_for_death(running: RunningTarget) -> None:
    assert running._child is not None
    running._child.process.wait()


def is_refused(running: RunningTarget) -> bool:
    with socket.socket() as asker:
        return asker.connect_ex((running.address.host, running.address.port)) != 0


def test_a_target_leads_a_session_of_its_own(starts: Starts) -> None:
    with starts(PLAIN) as running:
        launch.wait_until_ready(running, Workload())
        assert running.pid is not None
        assert os.getsid(running.pid) == running.pid
        assert running.is_alive()
        assert running.exit_description() == ""
    assert not running.is_alive()
    assert running.exit_description() == "was killed by SIGTERM"


def test_every_thread_and_child_has_only_the_cores_given(
    place: BuildPaths, tmp_path: Path, placement: LaunchOptions
) -> None:
    home = os.sched_getaffinity(0)
    code = """
print(os.sched_getaffinity(0), flush=True)
if not os.fork():
    print(os.sched_getaffinity(0), flush=True)
serve(listen()) if os.getpid() == os.getsid(0) else signal.pause()
"""
    with process.start(script(place, tmp_path, code), placement) as running:
        assert os.sched_getaffinity(0) == home
        launch.wait_until_ready(running, Workload())
        for pid in members(running):
            assert os.sched_getaffinity(pid) == set(placement.cores)
    assert set(running.output_tail().split("\n")) <= {str(set(placement.cores)), ""}


def test_a_target_may_open_as_many_files_as_the_machine_lets_it(starts: Starts) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    code = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], flush=True)\n"
    with starts(code + PLAIN) as running:
        launch.wait_until_ready(running, Workload())
        limit = int(running.output_tail())
    assert limit >= before[0]
    assert limit >= min(before[1], process.FILES_OPEN_MAX)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_the_environment_is_padded_by_the_seed(place: BuildPaths, tmp_path: Path) -> None:
    prepared = script(place, tmp_path, "print(len(os.environ['JISSOKU_PADDING']))")
    sizes = []
    for seed in (1, 1, 2, 3):
        with process.start(prepared, placed(seed=seed)) as running:
            wait_for_death(running)
            sizes.append(int(running.output_tail()))
    assert sizes[0] == sizes[1]
    assert len(set(sizes)) == 3
    assert max(sizes) <= process.PADDING_BYTES_MAX


def test_a_command_keeps_our_environment_and_folder(
    starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_USER", "kept")
    with starts("print(os.environ['OF_THE_USER'], os.getcwd())") as running:
        wait_for_death(running)
        assert running.output_tail().split() == ["kept", str(Path.cwd())]


def test_options_of_the_users_shell_do_not_reach_a_command(
    starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JISSOKU_WORKERS", "4")
    with starts("print(sorted(n for n in os.environ if n.startswith('JISSOKU_')))") as running:
        wait_for_death(running)
        assert running.output_tail().strip() == "['JISSOKU_PADDING', 'JISSOKU_TARGET']"


def test_a_target_that_dies_is_noticed_with_its_own_words(starts: Starts) -> None:
    with starts("sys.exit('no licence found')") as running:
        with pytest.raises(TargetError, match="mine exited with code 1 before it answered") as died:
            launch.wait_until_ready(running, Workload())
        assert died.value.stderr == "no licence found\n"
    assert running.output_tail() == "no licence found\n"


def test_a_target_that_is_killed_is_noticed_with_the_signal(starts: Starts) -> None:
    with (
        starts("os.kill(os.getpid(), signal.SIGSEGV)") as running,
        pytest.raises(TargetError, match="mine was killed by SIGSEGV before it answered"),
    ):
        launch.wait_until_ready(running, Workload())


def test_only_the_end_of_stderr_is_kept(starts: Starts) -> None:
    with starts("print('x' * 100_000 + 'the end', flush=True)") as running:
        wait_for_death(running)
        assert running.output_bytes() == 100_008
    assert len(running.output_tail()) == process.TAIL_BYTES
    assert running.output_tail().endswith("the end\n")


@pytest.mark.parametrize(
    "child",
    ["pass", "os.setpgid(0, 0)", "os.setsid()"],
    ids=["child", "group of its own", "daemon"],
)
def test_nothing_is_left_of_a_target_that_forks(starts: Starts, child: str) -> None:
    with starts(FORKED.format(child=child)) as running:
        wait_for_death(running)
        assert members(running)
        assert not is_refused(running)
    assert not members(running)
    assert is_refused(running)
    assert running.exit_description() == "exited with code 0 (it must stay in the foreground)"


def test_a_daemon_that_forgot_its_environment_is_found_by_its_address(starts: Starts) -> None:
    daemon = SERVER + "listener = listen(); os.write(int(sys.argv[2]), b'x'); serve(listener)"
    child = f"""
os.setsid()
os.set_inheritable(writer, True)
words = [sys.executable, "-c", {daemon!r}, sys.argv[1], str(writer)]
os.execve(sys.executable, words, {{}})
"""
    with starts(FORKED.format(child=child)) as running:
        wait_for_death(running)
        assert not is_refused(running)
        (daemon_pid,) = members(running)
        assert b"JISSOKU" not in Path(f"/proc/{daemon_pid}/environ").read_bytes()
    assert is_refused(running)


def test_a_target_that_ignores_sigterm_is_killed(
    starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jissoku.system.process_session.STOP_LIMIT_NS", 1_000_000)
    with starts("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + PLAIN) as running:
        launch.wait_until_ready(running, Workload())
        assert running.stop() is False
    assert running.exit_description() == "was killed by SIGKILL"
    assert not members(running)


# Starts another process when it is asked to end, as a parent does that restarts its children.
RESPAWNING = """
def respawn(number, frame):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if not os.fork():
        signal.pause()
    os._exit(0)
signal.signal(signal.SIGTERM, respawn)
"""


def test_a_process_that_is_forked_while_others_end_is_asked_to_end_too(starts: Starts) -> None:
    with starts(RESPAWNING + PLAIN) as running:
        launch.wait_until_ready(running, Workload())
        assert running.stop() is True
        assert not members(running)


def test_stopping_twice_does_nothing_the_second_time(starts: Starts) -> None:
    with starts(PLAIN) as running:
        launch.wait_until_ready(running, Workload())
        assert running.stop() is True
        assert running.stop() is True


def test_a_stopped_target_stops_too(starts: Starts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jissoku.system.process_session.STOP_LIMIT_NS", 1_000_000)
    with starts(PLAIN) as running:
        launch.wait_until_ready(running, Workload())
        assert running.pid is not None
        os.kill(running.pid, signal.SIGSTOP)
        assert running.stop() is False
        assert not members(running)


def test_a_program_that_cannot_be_run_is_an_error_and_leaves_nothing(
    place: BuildPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF, but not really")
    program.chmod(0o755)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    with pytest.raises(TargetError, match=r"mine cannot be started: .*: Exec format error"):
        process.start(from_command(f"mine={program} {{port}}", place), placed())
    assert not list(folder.iterdir())


def test_a_missing_core_is_an_error(place: BuildPaths, tmp_path: Path) -> None:
    prepared = script(place, tmp_path, PLAIN)
    nowhere = LaunchOptions(port=1, cores=(1000,), workers=1, seed=1)
    home = os.sched_getaffinity(0)
    with pytest.raises(TargetError, match=r"mine cannot be started"):
        process.start(prepared, nowhere)
    assert os.sched_getaffinity(0) == home


def test_a_target_is_not_started_where_it_cannot_listen(place: BuildPaths, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="mine cannot listen on a Unix socket"):
        process.start(script(place, tmp_path, PLAIN), placed(unix=True))


def test_a_command_may_listen_on_a_unix_socket(place: BuildPaths, tmp_path: Path) -> None:
    code = """
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
serve(listener)
"""
    path = tmp_path / "target.py"
    path.write_text(SERVER + code)
    prepared = from_command(f"mine={sys.executable} {path} {{socket}}", place)
    with process.start(prepared, placed(unix=True)) as running:
        assert launch.wait_until_ready(running, Workload()).body == b"Hello, World!"
        assert running.address.url("/x") == f"unix:{running.address.socket}:/x"
    assert not Path(running.address.socket).exists()


def test_the_folder_of_a_start_goes_with_it(
    starts: Starts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with starts(PLAIN):
        assert list(tmp_path.glob("jissoku-*"))
    assert not list(tmp_path.glob("jissoku-*"))


def test_a_url_is_neither_started_nor_stopped(starts: Starts, placement: LaunchOptions) -> None:
    with starts(PLAIN) as theirs:
        launch.wait_until_ready(theirs, Workload())
        with process.start(from_url(f"found={theirs.address.url()}"), placement) as found:
            assert found.pid is None
            assert launch.wait_until_ready(found, Workload()).body == b"Hello, World!"
        assert theirs.is_alive()
