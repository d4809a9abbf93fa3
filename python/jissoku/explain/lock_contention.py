"""Threads wait for one another's locks."""

from jissoku.explain.cpu_share import Signature, Wording, cpu_cause
from jissoku.model.finding import Finding
from jissoku.model.observed import Observations

SIGNATURE = Signature(
    functions=r"_*(lll_lock_wait|pthread_mutex_lock|pthread_rwlock_\w+lock)\w*|take_gil|drop_gil"
    r"|(parking_lot\w*::|std::sys::sync::(mutex|rwlock))\S*|sync\.\(\*(RW)?Mutex\)\S*lockSlow\S*"
    r"|ObjectMonitor::\S*|__x64_sys_futex|__arm64_sys_futex",
    not_functions=r"runtime\.\S+",
    share_min=0.15,
)

# Schedulers of runtimes wake their threads by futexes: that is no lock of the program.
SCHEDULER = Signature(
    functions=r"runtime\.(findRunnable|schedule|wakep|startm|stopm|notewakeup|mcall)\S*"
)

WORDING = Wording(
    name="lock-contention",
    cause="CPU time goes into waiting for locks, and into waking those who wait.",
    falsified_by="one thread or one process per core, and the same CPU time per request",
    remedy="share less between threads, hold locks for shorter, or start a process per core",
)


def diagnose(observed: Observations) -> Finding | None:
    """Looks for locks on the stacks."""
    return cpu_cause(observed, SIGNATURE, WORDING, excluding=(SCHEDULER,))
