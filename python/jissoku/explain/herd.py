"""Several workers wake up for each connection, and all but one in vain."""

from jissoku.model.finding import Finding, Setting
from jissoku.model.observed import Observed

# Between what was seen on a busy machine with a planted herd, 13 to 15 in a hundred (a worker whose
# listener is empty again by the time it runs sleeps on inside the kernel), and 4 in a hundred of
# Go, whose threads hand the listener on between themselves.
VAIN_MIN = 0.08


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
