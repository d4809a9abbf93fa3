import os

from jissoku.observe import conditions, memory
from jissoku.observe.conditions import Snapshot, change


def snapshot(*, idle: int, steal: int, session: tuple[int, int, int], **tcp: int) -> Snapshot:
    return Snapshot({0: (0, 0, 0, idle, 0, 0, 0, steal)}, tcp, {42: session})


def test_differences_are_per_core_and_session() -> None:
    before = snapshot(idle=100, steal=1, session=(10, 30, 0), RetransSegs=5)
    after = snapshot(idle=150, steal=4, session=(25, 45, 2), RetransSegs=7)
    seen = change(before, after, [0])
    assert (seen.idle_ns, seen.steal_ns) == (500_000_000, 30_000_000)
    assert seen.tcp_retransmits == 2
    assert seen.user_fractions[42] == 0.5
    assert seen.major_faults == 2


def test_what_the_kernel_does_not_tell_is_none_and_not_zero() -> None:
    before = snapshot(idle=0, steal=0, session=(0, 0, 0))
    seen = change(before, before, [0])
    assert seen.listen_overflows is None
    assert seen.user_fractions[42] is None, "no ticks fell, so there is nothing to split"


def test_this_process_is_found_in_its_session() -> None:
    session = os.getsid(0)
    assert os.getpid() in memory.members(session)
    assert memory.rss_bytes(session) > 1_000_000
    seen = conditions.snapshot([session])
    assert session in seen.sessions
    assert set(os.sched_getaffinity(0)) <= set(seen.cores)
