"""Much of the time is spent in collecting garbage."""

from jissoku.explain.cpu_share import Signature, Wording, cpu_cause
from jissoku.model.finding import Finding
from jissoku.model.observed import Observations

SIGNATURE = Signature(
    functions=r"runtime\.(gcBgMarkWorker\S*|gcAssistAlloc\S*|gcDrain\S*|scanobject|bgsweep|sweepone)"
    r"|gc_collect_\w+|_?PyGC_Collect\w*|gc_alloc_generations|collect_generations"
    r"|v8::internal::(Heap::(CollectGarbage|Scavenge)|Scavenger\w*|MarkCompact\w*|Sweeper)\S*"
    r"|(G1|Parallel|ZMark|ZRelocate|Shenandoah)\w*(Task|Worker|GC)\w*\S*|GCTaskThread\S*",
    share_min=0.15,
)

WORDING = Wording(
    name="garbage-collection",
    cause="Much of the CPU time goes into collecting garbage.",
    falsified_by="a larger heap (GOGC, --max-semi-space-size, -Xmx, gc.freeze), and the same time",
    remedy="allocate less per request, or let the heap grow larger between collections: GOGC or"
    " GOMEMLIMIT of Go, --max-semi-space-size of Node, -Xmx of the JVM, gc.freeze() and a higher"
    " threshold of Python",
)


def diagnose(observed: Observations) -> Finding | None:
    """Looks for collectors on the stacks."""
    return cpu_cause(observed, SIGNATURE, WORDING)
