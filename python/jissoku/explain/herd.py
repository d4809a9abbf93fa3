"""Several workers wake up for each connection, and all but one in vain."""

from jissoku.model.finding import Finding, Setting
from jissoku.model.observed import Observed

# Without a herd there is none at all. With one they are few: a worker whose listener is empty again
# by the time it runs goes back to sleep inside the kernel, and on a busy machine most do.
VAIN_MIN = 0.04


def find(observed: Observed) -> Finding | None:
    """Counts wake-ups that found the connection taken, for connections that came alone."""
    calls = observed.calls
    if calls is None or not calls.lone or calls.vain < VAIN_MIN * calls.lone:
        return None
    return Finding(
        name="herd",
        cause="All workers on the shared listener are woken for each connection, and one gets it.",
        evidence=(
            (
                f"{calls.vain} wake-ups in vain for {calls.lone} connections that came alone "
                "(an accept that found nothing, right after a wait that had an event)"
            ),
        ),
        refuted_by="no more such wake-ups, and the same CPU time per connection",
        effect="a wake-up, a failed accept and a switch less per connection and idle worker; it "
        "grows with the number of workers",
        remedy="give each worker a listener of its own (SO_REUSEPORT), or wait with EPOLLEXCLUSIVE",
        settings=(Setting(program="nginx", directive="accept_mutex", value="on", block="events"),),
    )
