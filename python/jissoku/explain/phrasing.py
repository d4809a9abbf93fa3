"""Values in sentences, and savings relative to the total cost of a request."""

from jissoku.model.explanation import Observations

# Below this a value in microseconds would read as 0.0.
SAVING_NS_MIN = 100


def format_time(ns: float) -> str:
    """Nanoseconds as microseconds, or as milliseconds where those are easier to read."""
    return f"{ns / 1e6:,.1f} ms" if ns >= 1e6 else f"{ns / 1e3:,.1f} µs"


def format_small_time(ns: float) -> str:
    """As `format_time`, with a lower limit for values that would read as 0.0."""
    return format_time(ns) if ns >= SAVING_NS_MIN else f"less than {format_time(SAVING_NS_MIN)}"


def per_request(count: float, requests: int) -> str:
    """A count divided by requests, with two decimals."""
    return f"{count / requests:,.2f}"


def top_paths(paths: dict[str, int], requests: int, rows: int = 3) -> tuple[str, ...]:
    """The most frequent paths, each with its count per request."""
    ranked = sorted(paths.items(), key=lambda item: (-item[1], item[0]))
    return tuple(
        f"{path}: {per_request(count, requests)} per request" for path, count in ranked[:rows]
    )


def format_saving(observed: Observations, ns: float) -> str:
    """An upper bound of a saving in nanoseconds per request, as text."""
    cost = observed.load.cpu_ns_per_request if observed.load is not None else None
    if not ns:
        return "not priced on this machine"
    if not cost:
        return f"at most {format_time(ns)} of CPU time per request"
    share = min(1, ns / cost)
    whole = format_time(cost)
    return f"at most {format_time(ns)} of the {whole} of CPU time per request ({share:.0%})"
