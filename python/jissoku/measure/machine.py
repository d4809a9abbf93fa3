"""The properties of the machine that affect results, without anything that identifies it."""

import hashlib
import os
import platform
from collections.abc import Mapping
from pathlib import Path

import psutil

from jissoku.model import Machine
from jissoku.system.cores import available_cores, siblings

UNKNOWN = "unknown"
CPU = Path("/sys/devices/system/cpu")
BOOT = Path("/proc/sys/kernel/random/boot_id")

# Environment variable with the user's name for the machine, the only name that is recorded.
LABEL_VARIABLE = "JISSOKU_MACHINE_LABEL"


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
    intel = _word(CPU / "intel_pstate" / "no_turbo")
    if intel != UNKNOWN:
        return "off" if intel == "1" else "on"
    boost = _word(CPU / "cpufreq" / "boost")
    if boost != UNKNOWN:
        return "on" if boost == "1" else "off"
    return UNKNOWN
