"""The kernel does the work, so the CPU time of the target's processes is meaningless."""

from jissoku.explain.phrasing import format_small_time, format_time
from jissoku.model.explanation import Finding, FindingScope, Observations


def diagnose(observed: Observations) -> Finding | None:
    """Compares CPU time of the kernel's threads with that of the target's processes."""
    load = observed.load
    if load is None or not load.is_served_by_kernel:
        return None
    own = (load.cpu_ns or 0) / load.requests
    kernel = (load.kernel_cpu_ns or 0) / load.requests
    return Finding(
        name="kernel-threads",
        cause="The kernel's own threads do the work, and no process is charged for it.",
        evidence=(
            f"kernel threads used {format_time(kernel)} per answer, it {format_small_time(own)}",
        ),
        falsified_by="kernel threads that are as busy while the target is idle",
        effect="none on the target: its CPU time per request is not comparable",
        remedy="compare it by `total_cpu` in an experiment, which counts target, load generator"
        " and "
        "kernel threads, or by `rate` where all processes share all cores",
        scope=FindingScope.MEASUREMENT,
    )
