"""Which of many knobs are tested further: the effect of each in a balanced design.

Effects of single knobs are added up; what two of them do only together is mixed into them. So this
leaves out, and never accepts: what stays is tried alone and beside the others on fresh blocks.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from jissoku.model import Estimate, Run, Trial
from jissoku.stats.comparison_input import ComparisonInput
from jissoku.stats.ratio_samples import select_ratio_source
from jissoku.stats.valid_trials import valid_trials


def effects(
    run: Run, trials: Sequence[Trial], switched: Mapping[str, Sequence[str]], knobs: Sequence[str]
) -> dict[str, Estimate] | None:
    """Each knob's factor on the cost of a request, with its 95 % interval.

    Args:
        switched: The knobs of each arm beside the baseline.
        knobs: All of them.

    Returns:
        None where too few trials count to separate the knobs.
    """
    known = ComparisonInput(run, valid_trials(trials), {}, ()).main
    rows, values = [], []
    for arm, mine in switched.items():
        for log in select_ratio_source(known, arm, run.baseline).logs.values():
            rows.append([float(knob in mine) for knob in knobs])
            values.append(log)
    freedom = len(values) - len(knobs)
    design = np.array(rows).reshape(len(rows), len(knobs))
    if freedom < 1 or np.linalg.matrix_rank(design) < len(knobs):
        return None
    inverse = np.linalg.inv(design.T @ design)
    found = inverse @ design.T @ np.array(values)
    spread = math.sqrt(float(np.sum((np.array(values) - design @ found) ** 2)) / freedom)
    t = float(stats.t.ppf(0.975, freedom))
    halves = t * spread * np.sqrt(np.diag(inverse))
    return {
        knob: Estimate(
            value=math.exp(float(value)),
            low=math.exp(float(value - half)),
            high=math.exp(float(value + half)),
            blocks=len(values),
            sd_log=spread,
        )
        for knob, value, half in zip(knobs, found, halves, strict=True)
    }


def is_worth_it(effect: Estimate, minimum_effect: float) -> bool:
    """Whether a saving of at least the minimum effect is not ruled out."""
    return effect.low < 1 / (1 + minimum_effect)
