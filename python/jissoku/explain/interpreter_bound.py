"""Most of the time is spent in an interpreter, not in the kernel."""

import re
from pathlib import PurePosixPath

from jissoku.explain.cpu_causes import INTERPRETER_LOCK
from jissoku.model.explanation import Finding, LoadObservation, Observations
from jissoku.model.profile_observation import ProfileObservation

INTERPRETERS = re.compile(r"(python|pypy|ruby|perl|php|node|lua)[\d.]*(-fpm)?")
USER_MIN = 0.6

# Threads of one process that use about one core in total wait for one lock.
ONE_CORE = 1.15
WORKER_SHARE = 0.1

# Of the CPU time: less is not worth a sentence.
LOCK_SHARE_MIN = 0.05


def diagnose(observed: Observations) -> Finding | None:
    """Checks the processes' programs, and their CPU time outside the kernel."""
    load = observed.load
    if load is None or load.cpu_user_fraction is None or load.cpu_user_fraction < USER_MIN:
        return None
    names = {PurePosixPath(program.executable).name for program in load.processes}
    found = sorted(name for name in names if INTERPRETERS.fullmatch(name))
    if not found:
        return None
    evidence = [f"{load.cpu_user_fraction:.0%} of its CPU time is spent outside the kernel"]
    if _shares_a_lock(load):
        evidence.append("several threads work, and together they get no more than one core")
    if (share := _lock_share(observed.profile)) >= LOCK_SHARE_MIN:
        evidence.append(f"{share:.0%} of the CPU time passes its lock from thread to thread")
    return Finding(
        name="interpreter-bound",
        cause=f"The time goes into an interpreter ({', '.join(found)}), not into the kernel.",
        evidence=tuple(evidence),
        falsified_by="a native server core under the same application that is no faster",
        effect=f"the kernel's part is {1 - load.cpu_user_fraction:.0%}; no setting of sockets "
        "can save more than that",
        remedy="do less per request there, use a native server core, or start a process per core",
    )


def _lock_share(profile: ProfileObservation | None) -> float:
    return profile.share(INTERPRETER_LOCK.matches).share if profile else 0.0


def _shares_a_lock(load: LoadObservation) -> bool:
    for pid in {thread.pid for thread in load.threads}:
        times = [thread.cpu_ns for thread in load.threads if thread.pid == pid]
        workers = [ns for ns in times if ns >= WORKER_SHARE * max(times)]
        is_one_core = 0.8 * load.threads_ns <= sum(times) <= ONE_CORE * load.threads_ns
        if len(workers) > 1 and load.cores > 1 and is_one_core:
            return True
    return False
