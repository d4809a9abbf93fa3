"""Processes as listed in /proc: their CPU time and threads, and which of them belong to a target.

`process_tree` defines the processes of a target whose CPU time, memory, threads and system calls
are measured. The load generator's `--watch` applies the same rule in Rust. More processes may have
to be ended with a target: see `process_session`.
"""

import re
import resource
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from jissoku.model.explanation import ProcessInfo, ThreadUsage
from jissoku.model.updated import updated

PROC = Path("/proc")

# The unit of /proc/stat and /proc/PID/stat, independent of the kernel's tick (proc(5), USER_HZ).
TICK_NS = 10_000_000

# The parent of every kernel thread; in a container the number may be another process's.
KERNEL_THREADS_PARENT = 2

# Executable mappings that the kernel adds to every process; [uprobes] to those that are probed.
KERNEL_MAPPINGS = frozenset({"[vdso]", "[vsyscall]", "[uprobes]"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStat:
    """The fields of /proc/PID/stat of a process or thread (proc_pid_stat(5)).

    Times are in units of `TICK_NS`, and those of children of ones that ended and were waited for.
    """

    state: str = "S"
    parent: int = 0
    session: int = 0
    major_faults: int = 0
    user_ticks: int = 0
    system_ticks: int = 0
    children_user_ticks: int = 0
    children_system_ticks: int = 0
    start_ticks: int = 0
    core: int = 0

    @property
    def cpu_ticks(self) -> int:
        return self.user_ticks + self.system_ticks

    @property
    def has_exited(self) -> bool:
        return self.state in "ZX"


Processes = Mapping[int, ProcessStat]


def read_stat(folder: Path) -> ProcessStat:
    """Reads the `stat` file of a process's or thread's folder; OSError if it has ended."""
    text = (folder / "stat").read_text(errors="replace")
    # The program's name may contain spaces and parentheses; the fields after it do not.
    fields = text.rpartition(")")[2].split()
    return ProcessStat(
        state=fields[0],
        parent=int(fields[1]),
        session=int(fields[3]),
        major_faults=int(fields[9]),
        user_ticks=int(fields[11]),
        system_ticks=int(fields[12]),
        children_user_ticks=int(fields[13]),
        children_system_ticks=int(fields[14]),
        start_ticks=int(fields[19]),
        core=int(fields[36]),
    )


SWAP = re.compile(r"^VmSwap:\s*(\d+) kB$", re.MULTILINE)

T = TypeVar("T")
Key = TypeVar("Key")


def read_living(keys: Iterable[Key], read: Callable[[Key], T]) -> Iterator[tuple[Key, T]]:
    """What is read of each process or thread; those that have ended meanwhile are skipped."""
    for key in keys:
        try:
            value = read(key)
        except OSError:
            continue
        yield key, value


def all_processes() -> dict[int, ProcessStat]:
    found = read_living(PROC.glob("[0-9]*"), read_stat)
    return {int(folder.name): stat for folder, stat in found}


def process_tree(root: int | None, processes: Processes | None = None) -> set[int]:
    """A target's processes: `root`, the session that it leads, and the descendants of both.

    None for a server elsewhere, which has no processes here; `processes` are read now if not given.
    """
    if root is None:
        return set()
    known = all_processes() if processes is None else processes
    return {
        pid
        for pid in known
        if any(root in {one, known[one].session} for one in ancestry(pid, known))
    }


def ancestry(pid: int, processes: Processes) -> Iterator[int]:
    """A process, its parent, and so on, as far as they are known."""
    seen: set[int] = set()
    while pid in processes and pid not in seen:
        seen.add(pid)
        yield pid
        pid = processes[pid].parent


def is_kernel_thread(pid: int, stat: ProcessStat) -> bool:
    """Whether a process is one of the kernel's own threads, or the parent of all of them."""
    return KERNEL_THREADS_PARENT in {pid, stat.parent}


def rss_bytes(pids: Iterable[int]) -> int:
    """Resident memory; pages that processes share count in each."""
    texts = read_living(pids, lambda pid: (PROC / str(pid) / "statm").read_text())
    return resource.getpagesize() * sum(int(text.split()[1]) for _, text in texts)


def swap_bytes(pids: Iterable[int]) -> int:
    """Memory in swap (VmSwap of proc_pid_status(5))."""
    texts = read_living(pids, lambda pid: (PROC / str(pid) / "status").read_text())
    found = (SWAP.search(text) for _, text in texts)
    return 1024 * sum(int(one[1]) for one in found if one)


def has_generated_code(pids: Iterable[int]) -> bool:
    """Whether a process has executable memory that no file backs: code made at run time.

    V8, HotSpot, LuaJIT and PCRE's compiler have such mappings (.NET's belong to a memfd). Programs
    compiled in advance have none but those of the kernel, and neither has CPython unless ctypes
    made a callback. True if a process cannot be read, so that nothing is assumed of it.
    """
    for pid in pids:
        try:
            rows = _mappings(pid)
        except FileNotFoundError:
            continue  # It ended.
        except OSError:
            return True
        for _, access, _, _, inode, name in rows:
            is_of_no_file = inode == "0" or name.startswith("/memfd:")
            if "x" in access and name not in KERNEL_MAPPINGS and is_of_no_file:
                return True
    return False


def _mappings(pid: int) -> list[list[str]]:
    """The six columns of proc_pid_maps(5); the name may be empty."""
    rows = (PROC / str(pid) / "maps").read_text(errors="replace").splitlines()
    return [[*row.split(maxsplit=5), ""][:6] for row in rows]


def cpu_ns(pid: int) -> int:
    """CPU time of all threads of a process, ended ones included; OSError if it has ended."""
    # The clock's id is as of clock_getcpuclockid(3), which Python does not offer.
    return time.clock_gettime_ns((~pid << 3) | 2)


def start_ticks(pid: int) -> int:
    """When a process was started, in ticks since boot; 0 if it has ended."""
    try:
        return read_stat(PROC / str(pid)).start_ticks
    except OSError:
        return 0


def seconds_since(ticks: int) -> float:
    """Since a process's start, given as `start_ticks`: that clock runs on in suspend."""
    return (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * TICK_NS) / 1e9


def environment(pid: int) -> list[bytes]:
    """The initial environment of a process, as `NAME=value`; empty for another user's process."""
    try:
        return (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


@dataclass(frozen=True, slots=True)
class CpuTime:
    run_ns: dict[int, int]
    user_ticks: int
    system_ticks: int

    def __add__(self, other: "CpuTime") -> "CpuTime":
        return CpuTime(
            self.run_ns | other.run_ns,
            self.user_ticks + other.user_ticks,
            self.system_ticks + other.system_ticks,
        )

    def lacks(self, before: "CpuTime") -> bool:
        """Whether a process of the earlier reading has ended, so that its time is missing."""
        return not before.run_ns.keys() <= self.run_ns.keys()

    def run_ns_since(self, before: "CpuTime") -> int:
        """CPU nanoseconds between two readings; a new process starts at zero."""
        return sum(self.run_ns.values()) - sum(before.run_ns.values())

    def ticks_since(self, before: "CpuTime") -> tuple[int, int]:
        return self.user_ticks - before.user_ticks, self.system_ticks - before.system_ticks


def cpu_time(pids: set[int]) -> CpuTime:
    found = dict(read_living(pids, lambda pid: (read_stat(PROC / str(pid)), cpu_ns(pid))))
    return CpuTime(
        {pid: used_ns for pid, (_, used_ns) in found.items()},
        sum(stat.user_ticks for stat, _ in found.values()),
        sum(stat.system_ticks for stat, _ in found.values()),
    )


STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class CoreTimes:
    """Ticks of one core since boot; `steal` is time that the host gave to other guests."""

    user: int
    nice: int
    system: int
    idle: int
    iowait: int
    irq: int
    softirq: int
    steal: int

    @property
    def busy(self) -> int:
        """Ticks used by processes and the kernel of this machine, without steal time."""
        return self.user + self.nice + self.system + self.irq + self.softirq


def core_times(text: str | None = None) -> dict[int, CoreTimes]:
    """Every core's times, by its number; of a text of /proc/stat, read now if not given."""
    text = STAT.read_text() if text is None else text
    rows = (line.split() for line in text.splitlines() if line.startswith("cpu"))
    return {int(row[0][3:]): CoreTimes(*map(int, row[1:9])) for row in rows if row[0] != "cpu"}


# The kernel's own threads work for any process: what they do for a target costs CPU time that is
# not accounted to any process.


def kernel_cpu_ns() -> dict[int, int]:
    """CPU nanoseconds of each of the kernel's own threads so far."""
    parent = str(KERNEL_THREADS_PARENT)
    folder = PROC / parent / "task" / parent
    try:
        if (folder / "comm").read_text().strip() != "kthreadd":
            return {}
        pids = map(int, (folder / "children").read_text().split())
    except OSError:
        return {}
    return dict(read_living(pids, cpu_ns))


def kernel_spent_ns(before: Mapping[int, int], after: Mapping[int, int]) -> int | None:
    """CPU nanoseconds of all between two readings; the time of a thread that ended is missing.

    None if none of them is visible, as in a container.
    """
    if not before:
        return None
    return sum(used - before.get(pid, 0) for pid, used in after.items())


def tasks(pids: Iterable[int]) -> Iterator[Path]:
    for pid in pids:
        yield from sorted((PROC / str(pid) / "task").glob("[0-9]*"))


def _ran_and_waited_ns(task: Path) -> tuple[int, int]:
    """Time on a core, and time ready without one (proc_pid_schedstat)."""
    ran, waited, _ = map(int, (task / "schedstat").read_text().split())
    return ran, waited


def thread_usage(pids: Iterable[int]) -> tuple[ThreadUsage, ...]:
    return tuple(usage for _, usage in read_living(tasks(sorted(pids)), _thread))


def waited_ns(pids: Iterable[int]) -> int | None:
    """How long all threads had no core, since their starts; None if that is not counted."""
    found = [waited for _, (_, waited) in read_living(tasks(pids), _ran_and_waited_ns)]
    return sum(found) if found else None


def usage_between(
    before: Iterable[ThreadUsage], after: Iterable[ThreadUsage]
) -> tuple[ThreadUsage, ...]:
    """The difference of two readings; a new thread starts at zero."""
    old = {thread.tid: thread for thread in before}
    counters = ("cpu_ns", "wait_ns", "switches_voluntary", "switches_involuntary")
    return tuple(
        updated(
            thread,
            **{name: getattr(thread, name) - getattr(old[thread.tid], name) for name in counters},
        )
        if thread.tid in old
        else thread
        for thread in after
    )


# Variables that start a program for finding errors, and what they are set to then.
SHOWN_VARIABLES = frozenset(
    (*("FLASK_DEBUG", "NODE_ENV", "PYTHONASYNCIODEBUG", "PYTHONDEVMODE"), "WERKZEUG_RUN_MAIN")
)


def process_infos(pids: Iterable[int]) -> tuple[ProcessInfo, ...]:
    return tuple(info for _, info in read_living(sorted(pids), _process_info))


def _process_info(pid: int) -> ProcessInfo:
    folder = PROC / str(pid)
    words = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    mapped = {name for _, access, *_, name in _mappings(pid) if "x" in access and name[:1] == "/"}
    return ProcessInfo(
        pid=pid,
        executable=str((folder / "exe").readlink()),
        arguments=tuple(word.decode(errors="replace") for word in words),
        libraries=tuple(sorted(mapped)),
        variables={
            name: value
            for name, _, value in (
                one.decode(errors="replace").partition("=") for one in environment(pid)
            )
            if name in SHOWN_VARIABLES
        },
    )


def _thread(task: Path) -> ThreadUsage:
    ran_ns, wait_ns = _ran_and_waited_ns(task)
    rows = (line.partition(":") for line in (task / "status").read_text().splitlines())
    status = {name: value.strip() for name, _, value in rows}
    return ThreadUsage(
        pid=int(task.parts[-3]),
        tid=int(task.name),
        name=status["Name"],
        cpu_ns=ran_ns,
        wait_ns=wait_ns,
        switches_voluntary=int(status["voluntary_ctxt_switches"]),
        switches_involuntary=int(status["nonvoluntary_ctxt_switches"]),
        core=read_stat(task).core,
    )
