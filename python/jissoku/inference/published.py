"""Published values and measured ones, both as ratios to their table's first row."""

import math
from collections.abc import Iterator

from jissoku.inference import claims, estimate
from jissoku.inference.claims import ClaimData
from jissoku.inference.expression import Quantity, quantity
from jissoku.model import Estimate
from jissoku.model.experiment import PublishedComparison, PublishedFigure


def compare_published(known: ClaimData) -> Iterator[PublishedComparison]:
    """Every published row in the order of the file; absolute values are never compared."""
    first: dict[str, PublishedFigure] = {}
    for row in known.header.experiment.published:
        head = first.setdefault(row.table, row)
        ours, head_ours = _quantity(row), _quantity(head)
        value = _level(known, ours)
        yield PublishedComparison(
            published=row,
            ratio=row.value / head.value if head.value else None,
            ours=value,
            our_ratio=_ratio(known, ours, head_ours) if row is not head else None,
            remark="" if value or not row.quantity else "not measured here",
        )


def _quantity(row: PublishedFigure) -> Quantity | None:
    return quantity(row.quantity) if row.quantity else None


def _name(known: ClaimData, wanted: Quantity) -> str:
    return wanted.workload or known.header.experiment.workload[0].name


def _level(known: ClaimData, wanted: Quantity | None) -> Estimate | None:
    if wanted is None or wanted.is_count or wanted.is_benchmark:
        return None
    if _name(known, wanted) not in known.workloads:
        return None
    found = claims.logs(known.workloads[_name(known, wanted)].valid_trials, wanted)
    return estimate.geometric_mean(list(found.values()))


def _ratio(known: ClaimData, ours: Quantity | None, head: Quantity | None) -> Estimate | None:
    """Paired by block within a workload; across workloads the ratio of the means."""
    if ours is None or head is None or ours.metric != head.metric or ours.is_benchmark:
        return None
    one, other = _name(known, ours), _name(known, head)
    if one == other and one in known.workloads:
        found = claims.log_ratio_sample(known.workloads[one], [ours], [head])
        return estimate.geometric_mean(list(found.logs.values()))
    above, below = _level(known, ours), _level(known, head)
    if above is None or below is None:
        return None
    value = above.value / below.value
    half = math.hypot(above.half_width, below.half_width)
    return Estimate(
        value=value,
        low=value * math.exp(-half),
        high=value * math.exp(half),
        blocks=min(above.blocks, below.blocks),
        sd_log=math.hypot(above.sd_log, below.sd_log),
    )
