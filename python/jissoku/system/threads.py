"""Processes and threads of a target: programs, CPU time and context switches."""

from collections.abc import Iterable
from pathlib import Path

from jissoku.model.observed import ProcessInfo, ThreadUsage
from jissoku.system.processes import PROC, read_stat

# Fields of /proc/PID/task/TID/schedstat (proc_pid_schedstat): on a core, ready for one.
RAN, WAITED = 0, 1


def thread_usage(pids: Iterable[int]) -> tuple[ThreadUsage, ...]:
    """Every thread with its counters since its start."""
    found = []
    for pid in sorted(pids):
        for task in sorted((PROC / str(pid) / "task").glob("[0-9]*")):
            try:
                found.append(_thread(pid, task))
            except OSError:
                continue  # It ended meanwhile.
    return tuple(found)


def waited_ns(pids: Iterable[int]) -> int | None:
    """How long all threads of some processes were ready and had no core, since their starts.

    None if this kernel does not count it, or none of the threads is there any more.
    """
    found = []
    for pid in pids:
        for task in (PROC / str(pid) / "task").glob("[0-9]*"):
            try:
                found.append(int((task / "schedstat").read_text().split()[WAITED]))
            except OSError:
                continue  # It ended meanwhile, or the file does not exist.
    return sum(found) if found else None


def diff(before: Iterable[ThreadUsage], after: Iterable[ThreadUsage]) -> tuple[ThreadUsage, ...]:
    """The difference of two readings; a new thread starts at zero."""
    old = {thread.tid: thread for thread in before}
    return tuple(_less(thread, old.get(thread.tid)) for thread in after)


def process_infos(pids: Iterable[int]) -> tuple[ProcessInfo, ...]:
    found = []
    for pid in sorted(pids):
        folder = PROC / str(pid)
        try:
            executable = str((folder / "exe").readlink())
            words = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            maps = (folder / "maps").read_text(errors="replace").splitlines()
        except OSError:
            continue
        rows = (line.split(maxsplit=5) for line in maps)
        mapped = {row[5] for row in rows if len(row) == 6 and "x" in row[1] and row[5][0] == "/"}
        found.append(
            ProcessInfo(
                pid=pid,
                executable=executable,
                arguments=tuple(word.decode(errors="replace") for word in words),
                libraries=tuple(sorted(mapped)),
            )
        )
    return tuple(found)


def _thread(pid: int, task: Path) -> ThreadUsage:
    times = (task / "schedstat").read_text().split()
    rows = (line.partition(":") for line in (task / "status").read_text().splitlines())
    status = {name: value.strip() for name, _, value in rows}
    return ThreadUsage(
        pid=pid,
        tid=int(task.name),
        name=status["Name"],
        cpu_ns=int(times[RAN]),
        wait_ns=int(times[WAITED]),
        switches_voluntary=int(status["voluntary_ctxt_switches"]),
        switches_involuntary=int(status["nonvoluntary_ctxt_switches"]),
        core=read_stat(task).core,
    )


def _less(after: ThreadUsage, before: ThreadUsage | None) -> ThreadUsage:
    if before is None:
        return after
    return ThreadUsage(
        pid=after.pid,
        tid=after.tid,
        name=after.name,
        cpu_ns=after.cpu_ns - before.cpu_ns,
        wait_ns=after.wait_ns - before.wait_ns,
        switches_voluntary=after.switches_voluntary - before.switches_voluntary,
        switches_involuntary=after.switches_involuntary - before.switches_involuntary,
        core=after.core,
    )
