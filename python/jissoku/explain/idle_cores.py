"""Fewer threads work than there are cores."""

from jissoku.model.explanation import Finding, Observations, SuggestedDirective
from jissoku.model.wording import plural

# A thread with less CPU time than this fraction of the busiest one's is not a worker.
WORKER_SHARE = 0.1

# A thread that ran or waited for a core for less than this fraction of the time under load could
# have done more. The fraction is not larger because the generator needs a core.
BUSY_MIN = 0.3

# With this many connections per core no worker is without any by chance.
CONNECTIONS_MIN = 8


def diagnose(observed: Observations) -> Finding | None:
    """Counts the threads that worked, and compares them with the cores."""
    load = observed.load
    if load is None or not load.threads or load.connections < CONNECTIONS_MIN * load.cores:
        return None
    busiest = max(load.threads, key=lambda thread: thread.cpu_ns)
    workers = [t for t in load.threads if t.cpu_ns >= WORKER_SHARE * busiest.cpu_ns]
    wanted = busiest.cpu_ns + busiest.wait_ns
    if wanted < BUSY_MIN * load.threads_ns or len(workers) > load.cores / 2:
        return None
    idle = len(load.threads) - len(workers)
    return Finding(
        name="idle-cores",
        cause=f"{_count(len(workers))} all the work, and there are {load.cores} cores for it.",
        evidence=(
            (
                f"the busiest thread, {busiest.name}, ran or waited for a core "
                f"{wanted / load.threads_ns:.0%} of the time, under"
                f" {load.connections} {plural(load.connections, 'connection')}"
            ),
            (
                f"{idle} other {plural(idle, 'thread')} of the target had less than a tenth of its"
                " CPU time"
            ),
        ),
        falsified_by="more workers that leave the rate where it is, as with a lock that all share",
        effect=f"up to {load.cores / len(workers):.1f} times the rate, where the cores are free",
        remedy="start one worker for each core, and see that connections reach all of them",
        directives=(
            SuggestedDirective(
                program="nginx", directive="worker_processes", value="auto", block="main"
            ),
        ),
    )


def _count(number: int) -> str:
    return "One thread does" if number == 1 else f"{number} threads do"
