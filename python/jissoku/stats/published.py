"""Published figures and ours side by side, both as ratios to their table's first row."""

import math
from collections.abc import Iterator

from jissoku.model import Estimate
from jissoku.model.experiment import Beside, Published
from jissoku.stats import estimate, figures
from jissoku.stats.claims import Known
from jissoku.stats.inequality import Quantity, quantity


def beside(known: Known) -> Iterator[Beside]:
    """Every published row in the order of the file; absolute figures are never compared."""
    first: dict[str, Published] = {}
    for row in known.header.experiment.published:
        head = first.setdefault(row.table, row)
        ours, head_ours = _quantity(row), _quantity(head)
        value = _level(known, ours)
        yield Beside(
            published=row,
            ratio=row.value / head.value if head.value else None,
            ours=value,
            our_ratio=_ratio(known, ours, head_ours) if row is not head else None,
            remark="" if value or not row.quantity else "not measured here",
        )


def _quantity(row: Published) -> Quantity | None:
    return quantity(row.quantity) if row.quantity else None


def _name(known: Known, wanted: Quantity) -> str:
    return wanted.workload or known.header.experiment.workload[0].name


def _level(known: Known, wanted: Quantity | None) -> Estimate | None:
    if wanted is None or wanted.is_count or wanted.is_figure:
        return None
    if _name(known, wanted) not in known.campaigns:
        return None
    found = figures.logs(known.campaigns[_name(known, wanted)].readings, wanted)
    return estimate.level(list(found.values()))


def _ratio(known: Known, ours: Quantity | None, head: Quantity | None) -> Estimate | None:
    """Paired by block within a workload; between two, only as the ratio of both means."""
    if ours is None or head is None or ours.metric != head.metric or ours.is_figure:
        return None
    one, other = _name(known, ours), _name(known, head)
    if one == other and one in known.campaigns:
        found = figures.part(known.campaigns[one], [ours], [head])
        return estimate.level(list(found.logs.values()))
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
        spread=math.hypot(above.spread, below.spread),
    )
