"""Connections arrive at a full accept queue."""

from jissoku.model.explanation import Finding, Observations, SuggestedDirective
from jissoku.model.wording import plural


def diagnose(observed: Observations) -> Finding | None:
    """Checks the kernel's counter, which covers the whole machine."""
    load = observed.load
    if load is None or not load.listen_overflows:
        return None
    return Finding(
        name="accept-queue-overflow",
        cause="New connections came to a full queue, and had to come again.",
        evidence=(
            (
                f"{load.listen_overflows:,}"
                f" {plural(load.listen_overflows, 'connection was', 'connections were')}"
                " turned away under load"
            ),
        ),
        falsified_by="the same counter while the target does nothing: it is all the machine's",
        effect="each costs its client a second or more; the rate may not show it",
        remedy="listen with a longer queue (listen(2), net.core.somaxconn), and accept sooner",
        directives=(
            SuggestedDirective(
                program="nginx", directive="multi_accept", value="on", block="events"
            ),
        ),
    )
