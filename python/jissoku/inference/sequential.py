"""Critical values of Student's t when it is looked at after every block.

The error of 5 % is spent over the looks (Lan and DeMets, Biometrika 70, 1983): at each look the
boundary is where as much of it is spent as the spending function allows up to there. The chance
that equal arms are ever called different, at any look of a run, is at most 5 %, and the user may
stop it at any moment.

The boundaries are computed and not simulated. Let S be the sum of the first n log ratios and Q the
sum of their squares. With u = S / sqrt(Q), Student's t is u sqrt((n - 1) / (n - u^2)), and the next
one is u' = (u + w) / sqrt(1 + w^2) with w = x / sqrt(Q). Without an effect w is independent of all
earlier u, and sqrt(n) w has Student's t distribution with n degrees of freedom: u is a Markov chain
with one number as its state. Its distribution is carried from look to look in bins; with w = tan
(theta), u' = sqrt(1 + u^2) sin(theta + atan(u)), so that every step has a closed form.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy import optimize, special  # type: ignore[import-untyped]

Numbers = npt.NDArray[np.float64]

# A standard deviation needs two blocks, and one of two says nearly nothing.
FIRST_LOOK = 3

# Longer runs spend more at their first looks, in proportion.
SHORT_HORIZON = 12

# With half and twice as many bins the critical values differ by less than 0.02.
BINS = 80

# Significance levels for which boundaries are computed; between them p-values are interpolated on
# logarithms. Below them two looks hardly ever find the same, and a look has what it may spend.
ALPHAS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 1e-3, 1e-4)


def spent(blocks: int, horizon: int) -> float:
    """The part of the error that may be spent in the first `blocks` blocks.

    A Pocock-type function in short runs, the square root in long ones, whose early looks would have
    next to nothing otherwise.
    """
    part = min(1.0, blocks / horizon)
    return math.log1p((math.e - 1) * part) if horizon <= SHORT_HORIZON else math.sqrt(part)


def critical(blocks: int, horizon: int, alpha: float) -> float:
    """The value that |t| must exceed after `blocks` blocks; infinite before the first look.

    Args:
        blocks: At most as many as the horizon; more count as that many.
        horizon: For how many blocks the error is spent.
        alpha: Two-sided, of all looks together.
    """
    return boundaries(looks(horizon), horizon, alpha).get(min(blocks, horizon), math.inf)


def looks(horizon: int) -> tuple[int, ...]:
    """After each block from the third on."""
    return tuple(range(FIRST_LOOK, horizon + 1))


def compute_looks(horizon: int) -> None:
    """Computes the critical values of all looks, which are kept."""
    for alpha in ALPHAS:
        boundaries(looks(horizon), horizon, alpha)


def p_value(t: float, blocks: int, horizon: int) -> float:
    """The smallest significance level at which a look after `blocks` blocks finds this |t|."""
    if blocks < FIRST_LOOK:
        return 1.0
    blocks = min(blocks, horizon)
    here = _tail(abs(t), blocks - 1)
    tails = [_tail(critical(blocks, horizon, alpha), blocks - 1) for alpha in ALPHAS]
    if here >= tails[0]:
        return 1.0
    if here <= tails[-1]:
        added = spent(blocks, horizon)
        if blocks > FIRST_LOOK:
            added -= spent(blocks - 1, horizon)
        return min(ALPHAS[-1], here / added)
    known = np.log(tails[::-1]), np.log(ALPHAS[::-1])
    return float(np.exp(np.interp(math.log(here), *known)))


def _tail(t: float, freedom: int) -> float:
    return float(2 * special.stdtr(freedom, -t))


@cache
def boundaries(looks: Sequence[int], horizon: int, alpha: float) -> dict[int, float]:
    """The critical value of each look, with the error spent until then by `spent`."""
    found: dict[int, float] = {}
    state, mass, used = np.array([1.0]), np.array([1.0]), 0.0
    for blocks in range(2, max(looks) + 1):
        above = _above(state, blocks - 1)
        bound = math.inf
        if blocks in looks:
            allowed = alpha * spent(blocks, horizon) - used
            if not found:  # Nothing has been stopped before: it is that of a single look.
                bound = float(special.stdtrit(blocks - 1, 1 - allowed / 2))
            else:
                bound = _bound(blocks, mass, above, allowed)
            found[blocks], used = bound, used + allowed
        top = 1.0 if math.isinf(bound) else _u(bound, blocks) / math.sqrt(blocks)
        edges = np.linspace(0.0, math.asin(min(1.0, top)), BINS + 1)
        beyond = np.array([mass @ above(math.sqrt(blocks) * math.sin(edge)) for edge in edges])
        state = math.sqrt(blocks) * np.sin((edges[:-1] + edges[1:]) / 2)
        mass = beyond[:-1] - beyond[1:]
    return found


def _u(t: float, blocks: int) -> float:
    return t * math.sqrt(blocks / (blocks - 1 + t * t))


def _bound(blocks: int, mass: Numbers, above: Callable[[float], Numbers], allowed: float) -> float:
    """The |t| beyond which there is as much as is allowed."""

    def excess(log_t: float) -> float:
        beyond = float(mass @ above(_u(math.exp(log_t), blocks)))
        return math.log(max(beyond, 1e-300) / allowed)

    return math.exp(optimize.brentq(excess, math.log(0.01), math.log(1e9), xtol=1e-6))


def _above(state: Numbers, freedom: int) -> Callable[[float], Numbers]:
    """Of each state |u| the probability that the next one's size exceeds some value."""
    reach, turn = np.sqrt(1 + state * state), np.arctan(state)
    half, scale = math.pi / 2, math.sqrt(freedom)

    def part(low: Numbers, high: Numbers) -> Numbers:
        first, second = (
            special.stdtr(freedom, scale * np.tan(np.clip(one, -half, half))) for one in (low, high)
        )
        difference: Numbers = second - first
        return difference

    def above(size: float) -> Numbers:
        angle = np.arcsin(np.minimum(1.0, size / reach))
        up = part(angle - turn, math.pi - angle - turn)
        down = part(angle - math.pi - turn, -angle - turn)
        return np.where(size >= reach, 0.0, up + down)

    return above
