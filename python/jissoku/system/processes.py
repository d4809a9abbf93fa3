"""Processes as listed in /proc: their CPU time and threads, and which of them belong to a target.

`process_tree` defines the processes of a target whose CPU time, memory, threads and system calls
are measured. The load generator's `--watch` applies the same rule in Rust. More processes may have
to be ended with a target: see `process_session`.
"""

import resource
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from jissoku.model.explanation import ProcessInfo, ThreadUsage

PROC = Path("/proc")
PAGE_SIZE = resource.getpagesize()

# The unit of /proc/stat and /proc/PID/stat, independent of the kernel's tick (proc(5), USER_HZ).
TICK_NS = 10_000_000

# The parent of every kernel thread; in a container the number may be another process's.
KERNEL_THREADS_PARENT = 2

# The id of a process's clock is computed as in clock_getcpuclockid(3), which Python does not offer.
CPU_CLOCK = 2

EXITED_STATES = "ZX"

# Executable mappings that the kernel adds to every process; [uprobes] to those that are probed.
KERNEL_MAPPINGS = frozenset({"[vdso]", "[vsyscall]", "[uprobes]"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStat:
    """The fields of /proc/PID/stat of a process or thread (proc_pid_stat(5)).

    Attributes:
        user_ticks: In units of `TICK_NS`, like all times here.
        children_user_ticks: Of children that have ended and were waited for.
        start_ticks: Its start, since boot.
        core: The core it last ran on.
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
        """In user code and in the kernel together."""
        return self.user_ticks + self.system_ticks

    @property
    def has_exited(self) -> bool:
        return self.state in EXITED_STATES


Processes = Mapping[int, ProcessStat]


def read_stat(folder: Path) -> ProcessStat:
    """Reads the `stat` file of a process's or thread's folder in /proc.

    Raises:
        OSError: It has ended.
    """
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


def all_processes() -> dict[int, ProcessStat]:
    found: dict[int, ProcessStat] = {}
    for folder in PROC.glob("[0-9]*"):
        try:
            found[int(folder.name)] = read_stat(folder)
        except OSError:
            continue  # It ended meanwhile.
    return found


def process_tree(root: int | None, processes: Processes | None = None) -> set[int]:
    """A target's processes: `root`, the session that it leads, and the descendants of both.

    Args:
        root: The target's first process; None for a server elsewhere, which has no processes here.
        processes: The result of `all_processes`; read now if not given.
    """
    if root is None:
        return set()
    known = all_processes() if processes is None else processes
    return {pid for pid in known if _belongs(pid, root, known)}


def is_kernel_thread(pid: int, stat: ProcessStat) -> bool:
    """Whether a process is one of the kernel's own threads, or the parent of all of them."""
    return KERNEL_THREADS_PARENT in {pid, stat.parent}


def rss_bytes(pids: Iterable[int]) -> int:
    """Resident memory in bytes (proc_pid_statm(5)); pages that processes share count in each."""
    pages = 0
    for pid in pids:
        try:
            pages += int((PROC / str(pid) / "statm").read_text().split()[1])
        except OSError:
            continue  # It ended, and uses no memory.
    return pages * PAGE_SIZE


def has_generated_code(pids: Iterable[int]) -> bool:
    """Whether a process has executable memory that no file backs: code made at run time.

    V8, HotSpot, LuaJIT and PCRE's compiler have such mappings (.NET's belong to a memfd). Programs
    compiled in advance have none but those of the kernel, and neither has CPython unless ctypes
    made a callback. True if a process cannot be read, so that nothing is assumed of it.
    """
    for pid in pids:
        try:
            rows = (PROC / str(pid) / "maps").read_text(errors="replace").splitlines()
        except FileNotFoundError:
            continue  # It ended.
        except OSError:
            return True
        if any(_is_generated(*row.split(maxsplit=5)[1:]) for row in rows):
            return True
    return False


def cpu_ns(pid: int) -> int:
    """CPU time of all threads of a process, ended ones included, in nanoseconds.

    Raises:
        OSError: It has ended.
    """
    return time.clock_gettime_ns((~pid << 3) | CPU_CLOCK)


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


def _is_generated(access: str, _offset: str, _device: str, inode: str, name: str = "") -> bool:
    """A row of proc_pid_maps(5), without its addresses: executable, and not from a program file."""
    name = name.strip()
    if "x" not in access or name in KERNEL_MAPPINGS:
        return False
    return inode == "0" or name.startswith("/memfd:")


def _belongs(pid: int, root: int, processes: Processes) -> bool:
    seen: set[int] = set()
    while pid in processes and pid not in seen:
        if root in {pid, processes[pid].session}:
            return True
        seen.add(pid)
        pid = processes[pid].parent
    return False


@dataclass(frozen=True, slots=True)
class CpuTime:
    """Counters of some processes, since the start of each."""

    run_ns: dict[int, int]
    user_ticks: int
    system_ticks: int

    def __add__(self, other: "CpuTime") -> "CpuTime":
        """The sum of both, if they are of different processes."""
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
        """Ticks in user code and in the kernel between two readings."""
        return self.user_ticks - before.user_ticks, self.system_ticks - before.system_ticks


def cpu_time(pids: set[int]) -> CpuTime:
    """Reads the counters of processes; processes that have ended are skipped."""
    run_ns: dict[int, int] = {}
    user = system = 0
    for pid in pids:
        try:
            stat, used_ns = read_stat(PROC / str(pid)), cpu_ns(pid)
        except OSError:
            continue
        run_ns[pid] = used_ns
        user += stat.user_ticks
        system += stat.system_ticks
    return CpuTime(run_ns, user, system)


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
    """Every core's times, by its number.

    Args:
        text: Of /proc/stat; read now if not given.
    """
    text = STAT.read_text() if text is None else text
    rows = (line.split() for line in text.splitlines() if line.startswith("cpu"))
    return {int(row[0][3:]): CoreTimes(*map(int, row[1:9])) for row in rows if row[0] != "cpu"}


PARENT_NAME = "kthreadd"


def kernel_cpu_ns() -> dict[int, int]:
    """CPU nanoseconds of each so far."""
    return {pid: used for pid in _kernel_threads() if (used := _used(pid)) is not None}


def kernel_spent_ns(before: Mapping[int, int], after: Mapping[int, int]) -> int | None:
    """CPU nanoseconds of all between two readings; the time of a thread that ended is missing.

    None if none of them is visible, as in a container.
    """
    if not before:
        return None
    return sum(used - before.get(pid, 0) for pid, used in after.items())


def _kernel_threads() -> list[int]:
    folder = PROC / str(KERNEL_THREADS_PARENT) / "task" / str(KERNEL_THREADS_PARENT)
    try:
        if (folder / "comm").read_text().strip() != PARENT_NAME:
            return []
        return [int(pid) for pid in (folder / "children").read_text().split()]
    except OSError:
        return []


def _used(pid: int) -> int | None:
    try:
        return cpu_ns(pid)
    except OSError:
        return None  # It has ended.


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


def usage_between(
    before: Iterable[ThreadUsage], after: Iterable[ThreadUsage]
) -> tuple[ThreadUsage, ...]:
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
