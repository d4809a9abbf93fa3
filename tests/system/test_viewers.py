"""Viewers of this machine, as the kernel lists their sockets."""

import os
import subprocess
import sys
import time
from pathlib import Path

from jissoku.system.background import cpu_ns, viewer_pids

# In a process of its own, since a page that other tests have opened may list this one.
VIEWER = """
import os
from jissoku.system.background import registered_viewer, viewer_pids
own = os.getpid()
assert own not in viewer_pids()
with registered_viewer(), registered_viewer():
    print(own in viewer_pids(), flush=True)
    input()
assert own not in viewer_pids()
print("ended", flush=True)
input()
"""


def test_a_viewer_is_listed_while_it_lives() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", VIEWER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as viewer:
        assert viewer.stdin is not None
        assert viewer.stdout is not None
        assert viewer.stdout.readline() == "True\n"
        assert viewer.pid in viewer_pids()
        viewer.stdin.write("\n")
        viewer.stdin.flush()
        assert viewer.stdout.readline() == "ended\n"
        assert viewer.pid not in viewer_pids()
        viewer.stdin.write("\n")
        viewer.stdin.flush()
        assert viewer.wait() == 0


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
