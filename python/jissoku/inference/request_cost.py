"""Results of pairs of load generators: cost ratios, rates, and the share of user code."""

import math
from collections.abc import Sequence

from jissoku.inference import estimate
from jissoku.model import Estimate
from jissoku.model.load_tool import Tool
from jissoku.model.request_cost import CostRecord, CostResult, LoadPoint, ToolMeasurement, ToolPair
from jissoku.model.updated import updated

# With fewer ticks than this the split into user and kernel time would be guesswork.
TICKS_MIN = 20


def with_results(record: CostRecord, tools: tuple[Tool, Tool]) -> CostRecord:
    figures = []
    for cell in record.cells:
        unable = unsupported_reason(cell, tools)
        pairs = [pair for pair in record.pairs if pair.cell == cell.name]
        figures.append(
            CostResult(cell=cell.name, unsupported_reason=unable)
            if unable
            else cost_result(cell, pairs)
        )
    names = [cell.name for cell in record.cells if unsupported_reason(cell, tools) is None]
    return updated(record, figures=tuple(figures), overall=overall(names, record.pairs))


def cost_result(cell: LoadPoint, pairs: Sequence[ToolPair]) -> CostResult:
    counted = [pair for pair in pairs if not pair.void]
    found = CostResult(
        cell=cell.name,
        pairs=len(counted),
        void=len(pairs) - len(counted),
        apart=sum(pair.are_rates_apart for pair in counted),
    )
    if not counted:
        return found
    sides = [[pair.sides[place] for pair in counted] for place in (0, 1)]
    seconds = sum(pair.window_ns for pair in counted) / 1e9
    cost_ns = [math.exp(_mean([math.log(it.cost_ns) for it in side])) for side in sides]
    rates_rps = [sum(it.answers for it in side) / seconds for side in sides]
    return updated(
        found,
        ratio=estimate.geometric_mean([pair.log_ratio for pair in counted]),
        cost_ns=(cost_ns[0], cost_ns[1]),
        rates_rps=(rates_rps[0], rates_rps[1]),
        user_fractions=(_user_fraction(sides[0]), _user_fraction(sides[1])),
    )


def overall(names: Sequence[str], pairs: Sequence[ToolPair]) -> Estimate | None:
    """The geometric mean over cells of equal weight; a round is a block if each cell counted."""
    rounds: dict[int, dict[str, float]] = {}
    for pair in pairs:
        if not pair.void:
            rounds.setdefault(pair.round, {})[pair.cell] = pair.log_ratio
    whole = [_mean(list(logs.values())) for logs in rounds.values() if len(logs) == len(names)]
    return estimate.geometric_mean(whole)


def _user_fraction(sides: Sequence[ToolMeasurement]) -> float | None:
    user, system = (sum(side.ticks[place] for side in sides) for place in (0, 1))
    return user / (user + system) if user + system >= TICKS_MIN else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def unsupported_reason(cell: LoadPoint, tools: tuple[Tool, Tool]) -> str | None:
    """Why one of the two does not support a load; None if both do."""
    return next((why for tool in tools if (why := cell.unsupported_reason(tool))), None)
