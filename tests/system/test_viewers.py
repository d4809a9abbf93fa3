"""Viewers of this machine, as the kernel lists their sockets."""

import os
import time
from pathlib import Path

from jissoku.system.viewers import cpu_ns, registered_viewer, viewer_pids


def test_a_viewer_is_listed_while_it_lives() -> None:
    assert os.getpid() not in viewer_pids()
    with registered_viewer(), registered_viewer():
        assert os.getpid() in viewer_pids()
    assert os.getpid() not in viewer_pids()


def test_only_names_of_viewers_count(tmp_path: Path) -> None:
    sockets = tmp_path / "unix"
    sockets.write_text(
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        "0000: 00000002 00000000 00000000 0002 01 17 @jissoku-viewer-12\n"
        "0000: 00000002 00000000 00000000 0002 01 18 @jissoku-viewer-x\n"
        "0000: 00000002 00000000 00000000 0002 01 19 /tmp/@jissoku-viewer-13\n"
        "0000: 00000002 00000000 00000000 0002 01 20\n"
    )
    assert viewer_pids(sockets) == {12}
    assert viewer_pids(tmp_path / "gone") == set()


def test_the_cpu_time_of_those_that_live_is_counted() -> None:
    gone = int(Path("/proc/sys/kernel/pid_max").read_text())
    before = time.process_time_ns()
    assert cpu_ns(frozenset({os.getpid(), gone})) >= before
    assert cpu_ns(frozenset()) == 0
