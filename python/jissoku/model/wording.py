"""Words shared by all sentences: nouns that agree with a number, and verdicts."""

import math
from collections.abc import Sequence

from jissoku.model.summary import Comparison, Estimate, Metric, Verdict, more_blocks


def plural(number: int, one: str, several: str = "") -> str:
    return one if number == 1 else several or f"{one}s"


def counted(number: int, one: str, several: str = "") -> str:
    return f"{number:,} {plural(number, one, several)}"


def times(number: int) -> str:
    return plural(number, "once", f"{number} times")


def capitalised(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def trials_count(valid: int, total: int) -> str:
    return f"{valid} of {total} {plural(total, 'trial')} {plural(valid, 'counts', 'count')}"


def too_few_blocks(number: int) -> str:
    return f"{number} {plural(number, 'block is', 'blocks are')} too few"


def join_names(names: Sequence[str]) -> str:
    """As in `a, b and c`."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


# A lower figure, and a higher one.
DIFFERENCES = {
    Metric.COST: ("uses less CPU", "uses more CPU"),
    Metric.P50: ("answers sooner", "answers later"),
    Metric.P99: ("answers sooner", "answers later"),
    Metric.CAPACITY: ("takes fewer requests", "takes more requests"),
    Metric.TIME: ("needs less time", "needs more time"),
}


def verdict_text(metric: Metric, verdict: Verdict) -> str:
    """As in `uses less CPU`; verdicts other than differences are the same for every metric."""
    if not verdict.is_difference:
        return str(verdict)
    lower, higher = DIFFERENCES[metric]
    return (lower if verdict.is_lower else higher) + (", slightly" if verdict.is_slight else "")


def factor_text(found: Estimate, unknown: str) -> str:
    """A ratio with its interval, as in `1.31 x [1.28, 1.34]`; one that is vague has no figures."""
    if found.is_vague:
        beyond = found.vague_ratio("", "more than ", "less than ")
        return f"{beyond} \N{MULTIPLICATION SIGN}" if beyond else unknown
    value, interval = found.text.split(" ", 1)
    return f"{value} \N{MULTIPLICATION SIGN} {interval}"


# A larger distance, in per cent, says nothing.
DISTANCE_MAX = 100

SECOND_NS = 1e9

# Of a time in ISO 8601, its day.
DAY_LENGTH = len("2026-11-23")

# Times are rounded up to the step of the first row that they do not exceed, in seconds.
ROUNDING_S = ((60, 5), (600, 10), (math.inf, 60))


def outlook(comparison: Comparison) -> str:
    """What would decide an undecided comparison: a time, or else a number of blocks.

    Where the run does not last for it, how close the two are. Empty where nothing can be said.
    """
    if comparison.is_decided:
        return ""
    is_open = comparison.verdict is Verdict.INCONCLUSIVE
    if differ := distance_text(comparison):
        return f"not {'decided' if is_open else 'proven'}: they {differ}"
    more = more_text(comparison)
    return more and f"{more} may {'decide' if is_open else 'prove it'}"


def more_text(comparison: Comparison) -> str:
    """As in `about 40 s more` and `3 more blocks`; empty where the run does not last for it."""
    if comparison.is_out_of_reach:
        return ""
    return needed_text(comparison.blocks_needed, comparison.seconds_needed)


def needed_text(blocks: int | None, seconds: float | None) -> str:
    """The same of numbers, for pairs and bounds alike; empty without blocks."""
    if not blocks:
        return ""
    return more_blocks(blocks) if seconds is None else f"about {time_text(seconds)} more"


# A forecast beyond this, an hour in seconds, is of no use.
OUTLOOK_S = 3600.0

# The most blocks that a run may be asked for, and that a forecast counts.
ASKED_BLOCKS_MAX, BLOCKS_NEEDED_MAX = 200, 1000


def beyond_text(comparison: Comparison) -> str:
    """Why a run like this one cannot decide a comparison, and what can; empty if it is in reach."""
    needed, seconds = comparison.blocks_needed, comparison.seconds_needed
    if not comparison.is_out_of_reach:
        return ""
    if needed is None:
        return (
            f"at this spread more than {BLOCKS_NEEDED_MAX:,} more blocks would be needed: the ratio"
            " is too close to the limit, or varies too much; a quieter machine or a higher rate"
            " (-R) makes it vary less"
        )
    total = needed + (comparison.ratio.blocks if comparison.ratio else 0)
    takes = f", about {time_text(seconds)}" if seconds is not None else ""
    text = f"{more_blocks(needed)} would be needed{takes}"
    if (seconds or 0.0) > OUTLOOK_S:
        return f"{text}, which is more than an hour; a higher rate (-R) makes costs vary less"
    how = f": --blocks {total} measures them" if total <= ASKED_BLOCKS_MAX else ""
    return f"{text}, and this run ends before{how}"


def distance_text(comparison: Comparison) -> str:
    """What is known of a ratio out of reach: `differ by less than 4 %, or not at all`.

    Empty where it can be decided, and where it may be anything up to twice or half.
    """
    if not comparison.is_out_of_reach or comparison.ratio is None:
        return ""
    percent = distance_percent(comparison.ratio.low, comparison.ratio.high)
    if percent >= DISTANCE_MAX:
        return ""
    return f"differ by less than {rounded_up(percent)} %, or not at all"


def time_text(seconds: float) -> str:
    """As in `40 s`, `1 min 20 s` and `12 min`; never less than the time."""
    step = next(step for limit, step in ROUNDING_S if seconds <= limit)
    whole = max(step, math.ceil(seconds / step) * step)
    minutes, rest = divmod(whole, 60)
    parts = [f"{minutes} min"] * (minutes > 0) + [f"{rest} s"] * (rest > 0)
    return " ".join(parts)


def short_time(ns: float) -> str:
    """As in `1.45 ms`, with three digits at most."""
    for scale, unit in ((1e9, "s"), (1e6, "ms")):
        if ns >= scale:
            return f"{ns / scale:.3g} {unit}"
    return f"{ns / 1e3:.0f} us"


def percent_text(fraction: float) -> str:
    """As in `4.2 %`."""
    return f"{100 * fraction:.1f} %"


def micro_text(ns: float, form: str = ",.1f") -> str:
    """Nanoseconds as microseconds with their unit, from a second on as seconds."""
    if abs(ns) < SECOND_NS:
        return f"{ns / 1e3:{form}} \N{MICRO SIGN}s"
    return f"{ns / SECOND_NS:{form}} s"


def micro_cell(ns: float, form: str = ",.2f") -> str:
    """The same in a column whose header has the unit."""
    return micro_text(ns, form).removesuffix(" \N{MICRO SIGN}s")


def distance_percent(low: float, high: float) -> float:
    """How far from 1 a ratio between these may be, in per cent; infinite if `low` is 0 or less."""
    return 100 * (max(high, 1 / low) - 1) if low > 0 else math.inf


def rounded_up(percent: float) -> int:
    """To whole per cent, without the error of the last bit."""
    return math.ceil(percent - 1e-9)
