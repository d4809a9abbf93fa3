"""The kernel does the work, so the CPU time of the target's processes says nothing."""

from jissoku.explain.words import little, micro
from jissoku.model.finding import About, Finding
from jissoku.model.observed import Observed


def find(observed: Observed) -> Finding | None:
    """Holds the kernel's threads against the target's processes and the stopwatch."""
    load = observed.load
    if load is None or not load.is_answered_by_kernel:
        return None
    own = (load.cpu_ns or 0) / load.requests
    kernel = (load.kernel_cpu_ns or 0) / load.requests
    return Finding(
        name="kernel-threads",
        cause="The kernel's own threads do the work, and no process is charged for it.",
        evidence=(
            f"the kernel's threads used {micro(kernel)} per answer, its processes {little(own)}",
        ),
        refuted_by="kernel threads that are as busy while nobody asks the target",
        effect="none on the target: its CPU time per request is no figure to compare it by",
        remedy="compare it by `together` in an experiment, which counts target, stopwatch and "
        "kernel threads, or by `rate` where everybody shares all cores",
        about=About.MEASUREMENT,
    )
