"""From an experiment's records to the answer of each of its claims."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from jissoku.model import Bound, Estimate, Status
from jissoku.model.experiment import Answered, Claim, ClaimAnswer, Figures, Header, Tested
from jissoku.stats import figures, multiple
from jissoku.stats.campaign import is_rejected
from jissoku.stats.figures import Campaign, Part
from jissoku.stats.inequality import Link, Quantity, parse, quantity as read_quantity
from jissoku.stats.standing import count
from jissoku.stats.verdict import BLOCKS_MIN, BLOCKS_NEEDED_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What claims are answered from; workloads that were not run have no campaign."""

    header: Header
    campaigns: Mapping[str, Campaign]
    figures: Mapping[str, Figures] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Spread:
    """A mean of logarithms from independent workloads, with what its interval needs."""

    mean: float
    error: float
    freedom: float
    blocks: int
    spread: float
    allowance: float

    def half(self, confidence: float, more: float = 1.0) -> float:
        """Half the interval's width, had there been `more` times the blocks."""
        freedom = self.freedom * more
        t = float(stats.t.ppf((1 + confidence) / 2, freedom))
        return t * self.error / math.sqrt(more) + self.allowance


def answer(known: Known, claim: Claim) -> ClaimAnswer:
    """Answers one claim: it holds when all its inequalities do, each at its Bonferroni width."""
    if claim.not_testable:
        return ClaimAnswer(claim=claim, answer=Answered.NOT_TESTABLE, remarks=(claim.not_testable,))
    cores = _server_cores(known, claim)
    if cores < claim.server_cores_min:
        reason = (
            f"the server has {cores} {'core' if cores == 1 else 'cores'} here, and the claim is"
            f" about at least {claim.server_cores_min}"
        )
        return ClaimAnswer(claim=claim, answer=Answered.NOT_TESTABLE, remarks=(reason,))
    links = [(text, link) for text in claim.test for link in parse(text)]
    asked = sum(not link.quantities[0].is_count for _, link in links)
    confidence = multiple.confidence(asked)
    tests = tuple(_tested(known, text, link, confidence) for text, link in links)
    return ClaimAnswer(
        claim=claim, answer=_together(tests), tests=tests, remarks=tuple(_remarks(tests))
    )


def _server_cores(known: Known, claim: Claim) -> int:
    """As many as the servers have in the claim's workloads; some of those share all cores."""
    names = {
        _workload(known, quantity)
        for text in claim.test
        for link in parse(text)
        for quantity in link.quantities
        if not quantity.is_figure
    }
    runs = [known.campaigns[name].run for name in names if name in known.campaigns]
    return min((len(run.cores.server) for run in runs), default=len(known.header.cores.server))


def _together(tests: Sequence[Tested]) -> Answered:
    """One that fails decides; else one that is open; what could not be had is left out."""
    found = {test.answer for test in tests}
    for one in (Answered.FAILS, Answered.UNDECIDED, Answered.HOLDS):
        if one in found:
            return one
    return Answered.NOT_TESTABLE


def _remarks(tests: Sequence[Tested]) -> Iterator[str]:
    lost = [test for test in tests if test.answer is Answered.NOT_TESTABLE]
    if lost and len(lost) < len(tests):
        yield f"{len(lost)} of {len(tests)} parts cannot be tested here, and are left out"


def _workload(known: Known, quantity: Quantity) -> str:
    return quantity.workload or known.header.experiment.workload[0].name


def _tested(known: Known, text: str, link: Link, confidence: float) -> Tested:
    blank = Tested(
        text=text,
        answer=Answered.NOT_TESTABLE,
        bound=link.bound,
        relation=link.relation,
        published=_published(known, link),
    )
    for quantity in link.quantities:
        lack = _lack(known, quantity)
        if lack is not None:
            return replace(blank, answer=lack[0], remarks=(lack[1],))
    if all(quantity.is_count for quantity in link.quantities):
        return _counted(known, link, blank)
    factor = _factor(known, link)
    if factor is None:
        remark = "a count in it is 0: no ratio can be had"
        return replace(blank, answer=Answered.NOT_TESTABLE, remarks=(remark,))
    parts = list(_parts(known, link))
    few = min(len(part.logs) for _, part in parts)
    if few < 2:
        remark = "fewer than two blocks count: nothing can be said of the spread"
        needed = BLOCKS_MIN - few
        return replace(blank, answer=Answered.UNDECIDED, remarks=(remark,), blocks_needed=needed)
    spread = _spread(parts)
    spread = replace(spread, mean=spread.mean + math.log(factor))
    value = _estimate(spread)
    judged = replace(blank, value=value, measured=value.text)
    if few < BLOCKS_MIN:
        remark = f"{few} blocks are too few for an answer: at least {BLOCKS_MIN} are needed"
        return replace(
            judged, answer=Answered.UNDECIDED, remarks=(remark,), blocks_needed=BLOCKS_MIN - few
        )
    return _judged(known, link, judged, spread, confidence)


def _judged(known: Known, link: Link, blank: Tested, spread: _Spread, confidence: float) -> Tested:
    """Holds the interval against the bound; a rate that we held down counts one way only."""
    away = spread.mean - math.log(link.bound)
    half = spread.half(confidence)
    if link.relation == "<":
        away = -away
    up, down = _held_down(known, link)
    if link.relation == "<":
        up, down = down, up
    remarks = list(_shares(known, link))
    if abs(away) > half:
        wanted = Answered.HOLDS if away > 0 else Answered.FAILS
        # A rate that the stopwatch held down is less than the truth; it can only add to one side.
        doubted = down if wanted is Answered.HOLDS else up
        if not doubted:
            return replace(blank, answer=wanted, remarks=tuple(remarks))
        names = ", ".join(sorted({quantity.arm for quantity in doubted}))
        remarks.append(f"the stopwatch, not the server, held the rate down: {names}")
        return replace(blank, answer=Answered.UNDECIDED, remarks=tuple(remarks))
    needed = _blocks_needed(spread, abs(away), confidence)
    return replace(blank, answer=Answered.UNDECIDED, remarks=tuple(remarks), blocks_needed=needed)


def _blocks_needed(spread: _Spread, away: float, confidence: float) -> int | None:
    """How many more blocks would decide at this spread; None: more than we would promise."""
    for blocks in range(spread.blocks + 1, BLOCKS_NEEDED_MAX + 1):
        if away > spread.half(confidence, blocks / spread.blocks):
            return blocks - spread.blocks
    return None


def _held_down(known: Known, link: Link) -> tuple[list[Quantity], list[Quantity]]:
    """Rates above and rates below that say more about our stopwatch than about the server."""

    def those(quantities: Sequence[Quantity]) -> list[Quantity]:
        return [
            q
            for q in quantities
            if q.metric == "rate"
            and figures.bound(known.campaigns[_workload(known, q)], q.arm) is Bound.GENERATOR
        ]

    return those(link.above), those(link.below)


def _shares(known: Known, link: Link) -> Iterator[str]:
    names = {_workload(known, quantity) for quantity in link.quantities if not quantity.is_figure}
    if any(known.campaigns[name].run.cores.shared for name in names):
        yield "servers and stopwatch shared their cores: the ratio stands, for this arrangement"


def _published(known: Known, link: Link) -> float | None:
    """What the published figures of one table make of it; absolute figures are never compared."""
    tables: dict[str, dict[Quantity, float]] = {}
    for row in known.header.experiment.published:
        if row.quantity:
            named = read_quantity(row.quantity)
            named = replace(named, workload=_workload(known, named))
            tables.setdefault(row.table, {})[named] = row.value
    above, below = (
        [replace(one, workload=_workload(known, one)) for one in side]
        for side in (link.above, link.below)
    )
    for table in tables.values():
        if above and below and all(table.get(one) for one in (*above, *below)):
            top, bottom = (math.prod(table[one] for one in side) for side in (above, below))
            return top / bottom
    return None


def _counted(known: Known, link: Link, blank: Tested) -> Tested:
    quantity = link.left.above[0]
    value = _count(known, quantity)
    if value is None:
        remark = f"no trial of {quantity.arm} counts"
        return replace(blank, answer=Answered.UNDECIDED, remarks=(remark,))
    number = link.right.number
    holds = {"<": value < number, ">": value > number, "=": value == number}[link.relation]
    return replace(
        blank,
        answer=Answered.HOLDS if holds else Answered.FAILS,
        measured=f"{value:g}",
    )


def _count(known: Known, quantity: Quantity) -> float | None:
    campaign = known.campaigns[_workload(known, quantity)]
    if quantity.metric == "errors":
        return figures.errors(campaign, quantity.arm)
    return figures.count(campaign.counters[quantity.arm], quantity.metric)


def _factor(known: Known, link: Link) -> float | None:
    """The exact counts of a link, multiplied; None where one of them is 0."""
    found = 1.0
    for way, quantities in ((1, link.above), (-1, link.below)):
        for quantity in quantities:
            value = _count(known, quantity) if quantity.is_count else 1.0
            if not value:
                return None
            found *= value**way
    return found


def _lack(known: Known, quantity: Quantity) -> tuple[Answered, str] | None:
    """Why a quantity cannot be had, and whether that is for lack of something here."""
    if quantity.is_figure:
        return _lack_of_figure(known, quantity)
    lack = _lack_of_trials(known, quantity) or _lack_of_count(known, quantity)
    return lack or _lack_of_threads(known, quantity)


def _lack_of_trials(known: Known, quantity: Quantity) -> tuple[Answered, str] | None:
    name, arm = _workload(known, quantity), quantity.arm
    if name in known.header.left_out:
        return Answered.NOT_TESTABLE, known.header.left_out[name]
    campaign = known.campaigns.get(name)
    if campaign is None:
        return Answered.UNDECIDED, f"the workload {name} was not run to its end"
    for lacking in campaign.run.missing:
        if lacking.name == arm:
            return Answered.NOT_TESTABLE, lacking.sentence
    # Counts come from a start of their own, which a busy machine does not disturb.
    if quantity.is_count and quantity.metric != "errors":
        return None
    found = count(campaign.trials, arm)
    if found.status is not Status.MEASURED:
        disturbed = sum(is_rejected(trial) for trial in campaign.trials if arm in trial.arms)
        reason = f"the machine disturbed {disturbed} of its {found.total} trials, none counts"
        reason = found.breakdowns[0].reason if found.breakdowns else reason
        return Answered.UNDECIDED, f"{arm} has no figure: {reason}"
    return None


def _lack_of_count(known: Known, quantity: Quantity) -> tuple[Answered, str] | None:
    if not quantity.is_count or quantity.metric == "errors":
        return None
    counts = known.campaigns[_workload(known, quantity)].counters.get(quantity.arm)
    if counts is None:
        return Answered.NOT_TESTABLE, f"nothing counted what {quantity.arm} does here"
    if figures.count(counts, quantity.metric) is None:
        reason = counts.calls_reason or "nothing could count it"
        return Answered.NOT_TESTABLE, f"{quantity.text}: {reason}"
    return None


def _lack_of_threads(known: Known, quantity: Quantity) -> tuple[Answered, str] | None:
    readings = known.campaigns[_workload(known, quantity)].readings
    if quantity.metric == "together" and not figures.logs(readings, quantity):
        return Answered.NOT_TESTABLE, "the CPU time of the kernel's threads cannot be seen here"
    return None


def _lack_of_figure(known: Known, quantity: Quantity) -> tuple[Answered, str] | None:
    found = known.figures.get(quantity.arm)
    if found is None:
        return Answered.UNDECIDED, f"the bench {quantity.arm} was not run"
    if found.reason:
        return Answered.NOT_TESTABLE, found.reason
    name = quantity.metric.partition(".")[2]
    if not all(name in one for one in found.rounds):
        return Answered.NOT_TESTABLE, f"the bench {quantity.arm} did not print {name}"
    return None


def _parts(known: Known, link: Link) -> Iterator[tuple[str, Part]]:
    """What each workload and each bench contributes; those of different ones are independent."""
    above = [(_origin(known, q), q) for q in link.above if not q.is_count]
    below = [(_origin(known, q), q) for q in link.below if not q.is_count]
    for origin in dict.fromkeys(one for one, _ in (*above, *below)):
        mine = [q for one, q in above if one == origin], [q for one, q in below if one == origin]
        bench, workload = origin
        if bench:
            yield bench, figures.printed(known.figures[bench], *mine)
        else:
            yield workload, figures.part(known.campaigns[workload], *mine)


def _origin(known: Known, quantity: Quantity) -> tuple[str, str]:
    """The bench or the workload that a quantity comes from."""
    return (quantity.arm, "") if quantity.is_figure else ("", _workload(known, quantity))


def _spread(parts: Sequence[tuple[str, Part]]) -> _Spread:
    """Sums means, and errors as Welch and Satterthwaite do (1946)."""
    values = [np.asarray(list(part.logs.values()), dtype=float) for _, part in parts]
    errors = [float(v.var(ddof=1)) / len(v) for v in values]
    total = sum(errors)
    weights = sum(e**2 / (len(v) - 1) for e, v in zip(errors, values, strict=True))
    return _Spread(
        mean=float(sum(v.mean() for v in values)),
        error=math.sqrt(total),
        freedom=total**2 / weights if weights > 0 else min(len(v) for v in values) - 1,
        blocks=min(len(v) for v in values),
        spread=math.sqrt(sum(float(v.var(ddof=1)) for v in values)),
        allowance=sum(part.log_allowance for _, part in parts),
    )


def _estimate(spread: _Spread) -> Estimate:
    half = spread.half(0.95)
    return Estimate(
        value=math.exp(spread.mean),
        low=math.exp(spread.mean - half),
        high=math.exp(spread.mean + half),
        blocks=spread.blocks,
        spread=spread.spread,
    )
