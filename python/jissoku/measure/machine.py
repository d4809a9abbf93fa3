"""The properties of the machine that affect results, and those that disturb measurements."""

import datetime as dt
import hashlib
import os
import platform
import resource
import time
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from jissoku.model import Machine
from jissoku.system import cores
from jissoku.system.cores import available_cores, siblings

UNKNOWN = "unknown"
CPU = Path("/sys/devices/system/cpu")
BOOT = Path("/proc/sys/kernel/random/boot_id")
ADVICE = Path(__file__).with_name("health.toml")

# Environment variable with the user's name for the machine, the only name that is recorded.
LABEL_VARIABLE = "JISSOKU_MACHINE_LABEL"

# Needed for 10,000 connections, on both sides.
DESCRIPTORS_WANTED = 20_000
PORTS_WANTED = 20_000

WATCH_S = 1.0
BUSY_MAX = 0.05
STEAL_MAX = 0.005
BACKLOG_WANTED = 1024
WAITING_MAX = 1000
TIME_WAIT = "06"  # state of a connection in /proc/net/tcp


def machine() -> Machine:
    """Reads the fingerprint. Unavailable values are `unknown`."""
    cores = available_cores()
    return Machine(
        cpu_model=_field(Path("/proc/cpuinfo"), "model name"),
        cores=len(cores),
        smt=any(len(siblings(core)) > 1 for core in cores),
        memory_bytes=psutil.virtual_memory().total,
        kernel=platform.release(),
        hypervisor=_hypervisor(),
        governor=_word(CPU / "cpu0" / "cpufreq" / "scaling_governor"),
        turbo=_turbo(),
        clocksource=_word(Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        python=platform.python_version(),
    )


def now_utc() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def machine_name() -> str:
    here = machine()
    return f"{here.cpu_model}, kernel {here.kernel}"


def boot() -> str:
    """Identifies this boot of the machine by a hash; empty where the kernel has no boot ID."""
    identifier = _word(BOOT)
    return "" if identifier == UNKNOWN else hashlib.sha256(identifier.encode()).hexdigest()[:12]


def machine_label(environment: Mapping[str, str] = os.environ) -> str:
    """The user's own name for this machine; empty unless they gave one."""
    return environment.get(LABEL_VARIABLE, "").strip()


def _word(path: Path) -> str:
    try:
        return path.read_text().strip() or UNKNOWN
    except OSError:
        return UNKNOWN


def _field(path: Path, name: str) -> str:
    for line in _word(path).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return UNKNOWN


def _hypervisor() -> str:
    if "hypervisor" not in _field(Path("/proc/cpuinfo"), "flags").split():
        return "none seen"
    vendor = _word(Path("/sys/class/dmi/id/sys_vendor"))
    return "a virtual machine" if vendor == UNKNOWN else f"a virtual machine ({vendor})"


def _turbo() -> str:
    for file, off in (("intel_pstate/no_turbo", "1"), ("cpufreq/boost", "0")):
        switch = _word(CPU / file)
        if switch != UNKNOWN:
            return "off" if switch == off else "on"
    return UNKNOWN


class State(StrEnum):
    FINE = "fine"
    WARN = "warning"  # results are valid, but less precise or less general
    BAD = "bad"  # absolute values from this machine are not reliable


@dataclass(frozen=True, slots=True)
class HealthCheck:
    name: str
    state: State
    observed: str
    advice: str = ""


def run_health_checks() -> Iterator[HealthCheck]:
    """Inspects everything; takes about a second, in which it measures the CPU use of others."""
    advice = tomllib.loads(ADVICE.read_text(encoding="utf-8"))
    for name, look in HEALTH_CHECKS.items():
        state, seen = look()
        text = advice[name].format(descriptors=DESCRIPTORS_WANTED)
        yield HealthCheck(name, state, seen, "" if state is State.FINE else text)


def _cores() -> tuple[State, str]:
    found = cores.partition_cores(cores.available_cores())
    server, generator = (",".join(map(str, side)) for side in (found.server, found.generator))
    if found.shared:
        return State.BAD, "server and load generator share one core"
    return State.FINE, f"server on {server}, load generator on {generator}"


def _smt() -> tuple[State, str]:
    if machine().smt:
        return State.WARN, "physical cores have two threads, kept on one side"
    return State.FINE, "no two cores share a physical one"


def _others() -> tuple[State, str]:
    used, before, started = cpu_by_process(), psutil.cpu_times(), time.monotonic()
    time.sleep(WATCH_S)
    after = psutil.cpu_times()
    span = (time.monotonic() - started) * (psutil.cpu_count() or 1)
    idle = after.idle - before.idle + after.iowait - before.iowait
    steal = max(0.0, after.steal - before.steal) / span
    busy = min(1.0, max(0.0, 1 - idle / span))
    text = f"{busy:.0%} busy, {steal:.1%} stolen"
    if steal > STEAL_MAX:
        return State.BAD, text
    if busy > BUSY_MAX:
        names = busiest(used, cpu_by_process())
        return State.WARN, f"{text}; most of it: {', '.join(names)}" if names else text
    return State.FINE, text


# Name and CPU seconds of each process, by its ID and start time. A name may change: a kernel worker
# is called by its work.
CpuByProcess = Mapping[tuple[int, float], tuple[str, float]]


def cpu_by_process() -> CpuByProcess:
    found = {}
    for process in psutil.process_iter(["pid", "create_time", "name", "cpu_times"]):
        known = process.info
        if known["cpu_times"] is not None:
            used = known["cpu_times"].user + known["cpu_times"].system
            found[known["pid"], known["create_time"]] = known["name"], used
    return found


def busiest(before: CpuByProcess, after: CpuByProcess) -> list[str]:
    """The names of the three programs that used most CPU time meanwhile, also of new processes."""
    used: dict[str, float] = defaultdict(float)
    for key, (name, seconds) in after.items():
        used[name] += max(0.0, seconds - before.get(key, (name, 0.0))[1])
    return [name for name in sorted(used, key=used.__getitem__, reverse=True)[:3] if used[name]]


def _graded(text: str, *, fine: bool) -> tuple[State, str]:
    return (State.FINE if fine else State.WARN), text


def _matches(value: str, wanted: str) -> tuple[State, str]:
    return _graded(value, fine=value == wanted)


def _descriptors() -> tuple[State, str]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _graded(f"{soft:,}, of {hard:,} allowed", fine=soft >= DESCRIPTORS_WANTED)


def _ports() -> tuple[State, str]:
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    count = last - first + 1
    return _graded(f"{count:,} ({first}-{last})", fine=count >= PORTS_WANTED)


def _waiting() -> tuple[State, str]:
    tables = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
    rows = [row for table in tables if table.exists() for row in table.read_text().splitlines()]
    count = sum(row.split()[3] == TIME_WAIT for row in rows)
    return _graded(f"{count:,}", fine=count < WAITING_MAX)


def _backlog() -> tuple[State, str]:
    size = int(Path("/proc/sys/net/core/somaxconn").read_text())
    return _graded(f"{size:,}", fine=size >= BACKLOG_WANTED)


def _uring() -> tuple[State, str]:
    switch = _word(Path("/proc/sys/kernel/io_uring_disabled"))
    texts = {"0": "allowed", UNKNOWN: UNKNOWN}
    return _graded(texts.get(switch, "switched off"), fine=switch == "0")


HEALTH_CHECKS: dict[str, Callable[[], tuple[State, str]]] = {
    "cores": _cores,
    "SMT": _smt,
    "frequency governor": lambda: _matches(machine().governor, "performance"),
    "turbo": lambda: _matches(machine().turbo, "off"),
    "virtual machine": lambda: _matches(machine().hypervisor, "none seen"),
    "other work": _others,
    "open files": _descriptors,
    "local ports": _ports,
    "in TIME_WAIT": _waiting,
    "listen backlog": _backlog,
    "clock": lambda: _matches(machine().clocksource, "tsc"),
    "io_uring": _uring,
}
