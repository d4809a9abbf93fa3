"""Several workers wake up for each connection, and all but one find none."""

from jissoku.model.explanation import Finding, Observations, SuggestedDirective

# On a busy machine 13 to 15 % were measured with an injected thundering herd (a worker whose
# listener is empty again when it runs goes back to sleep inside the kernel), and 4 % with Go, whose
# threads hand the listener to one another.
SPURIOUS_MIN = 0.08


def diagnose(observed: Observations) -> Finding | None:
    """Counts wake-ups without a connection to accept, for connections that arrive one at a time."""
    syscalls = observed.syscalls
    if (
        syscalls is None
        or not syscalls.isolated_connections
        or syscalls.spurious_wakeups < SPURIOUS_MIN * syscalls.isolated_connections
    ):
        return None
    return Finding(
        name="thundering-herd",
        cause="All workers on the shared listener are woken for each connection, and one gets it.",
        evidence=(
            (
                f"{syscalls.spurious_wakeups} spurious wake-ups for"
                f" {syscalls.isolated_connections} isolated connections (an accept that returned"
                " EAGAIN right after a wait that reported an event)"
            ),
        ),
        falsified_by="no more such wake-ups, and the same CPU time per connection",
        effect="a wake-up, a failed accept and a switch less per connection and idle worker; it "
        "grows with the number of workers",
        remedy="give each worker a listener of its own (SO_REUSEPORT), or wait with EPOLLEXCLUSIVE",
        directives=(
            SuggestedDirective(
                program="nginx", directive="accept_mutex", value="on", block="events"
            ),
        ),
    )
