"""The cost of a request grows with the number of other waiting requests."""

from jissoku.explain.phrasing import format_time
from jissoku.model.explanation import Finding, Observations, TimerObservation

# Waiting connections cost a little through their memory; a scanned list costs in proportion to
# their number. With 16,000 of them medians grew 1.63 to 1.97 times with a list, and 1.00 to 1.06
# times with a timer wheel and in Go, while twenty other processes competed for two virtual cores.
GROWTH_MIN = 1.35


def diagnose(observed: Observations) -> Finding | None:
    """Compares CPU time per request while other connections are idle and while they wait."""
    timers = observed.timers
    if timers is None or timers.cost_growth < GROWTH_MIN:
        return None
    return Finding(
        name="linear-timers",
        cause=(
            "A request costs the more, the more others wait: the timers are gone through one by "
            "one."
        ),
        evidence=(
            (
                f"{format_time(timers.cpu_ns_waiting)} of CPU time per request while "
                f"{timers.waiting:,} others waited, {format_time(timers.cpu_ns_idle)} while as"
                f" many "
                "connections were open and idle"
            ),
            *_control_evidence(timers),
        ),
        falsified_by="the same with waiting connections whose timers are in a heap",
        effect=(
            f"{format_time(timers.cpu_ns_waiting * (1 - 1 / timers.cost_growth))} less per request"
            f" with "
            f"{timers.waiting:,} waiting"
        ),
        remedy="keep timers in a heap or a wheel",
    )


def _control_evidence(timers: TimerObservation) -> tuple[str, ...]:
    if not timers.control_ns_idle:
        return ()
    return (
        (
            f"a second copy without such connections, under the same load at the same time, took "
            f"{format_time(timers.control_ns_waiting)} and {format_time(timers.control_ns_idle)}"
        ),
    )
