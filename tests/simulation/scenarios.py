"""The simulated scenarios, and the allowed shares of their events."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

from jissoku.model import Method, Mode
from tests.simulation import events
from tests.simulation.events import Simulate
from tests.simulation.noise import GO, LIKE, NATIVE, NODE, NOISY, QUIET, Drift, Noise, Shape

# A share that lies in its bounds is called outside of them in one of a thousand checks.
DOUBT = 1e-3


@dataclass(frozen=True, slots=True)
class Bound:
    """Which share of the campaigns may be so, from the least to the most."""

    low: float
    high: float

    @property
    def text(self) -> str:
        """As the table writes it."""
        if self.low <= 0:
            return f"<= {self.high:g}" if self.high < 1 else "any"
        return f">= {self.low:g}" if self.high >= 1 else f"{self.low:g}-{self.high:g}"

    def allows(self, share: float, campaigns: int) -> bool:
        """Whether this share of campaigns is consistent with the bounds (binomial).

        What is counted several times in a campaign is not independent: campaigns count.
        """
        seen = share * campaigns
        too_many = float(stats.binom.sf(np.floor(seen) - 1, campaigns, self.high))
        too_few = float(stats.binom.cdf(np.ceil(seen), campaigns, self.low))
        return (self.high >= 1 or too_many > DOUBT) and (self.low <= 0 or too_few > DOUBT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Campaigns of one kind.

    Attributes:
        setting: Noise and mode in words, for the table.
        bounds: What is counted, by its name in the table.
        brief: How many campaigns a test has time for; `long` at length.
    """

    name: str
    setting: str
    simulate: Simulate
    bounds: Mapping[str, Bound]
    brief: int = 0
    long: int = 2000

    @property
    def key(self) -> str:
        """Which scenario it is."""
        return f"{self.name}: {self.setting}"

    def random(self, campaign: int) -> np.random.Generator:
        """The random numbers of one campaign: the same ones in every run."""
        return np.random.default_rng([campaign, *self.key.encode()])


NOMINAL = Bound(0.03, 0.07)
COVERED = Bound(0.93, 0.97)
FAMILY = Bound(0, 0.05)
NEVER = Bound(0, 0.002)

EQUAL = {"interval excludes 1": NOMINAL, "verdict: different": FAMILY, "any proven": FAMILY}
AGREE = {
    "other slice length contradicts": Bound(0, 0.01),
    "single-target trials contradict": Bound(0, 0.01),
    "verdict withdrawn": Bound(0, 0.01),
}


def _equal(setting: str, noise: Noise, brief: int = 0) -> Scenario:
    return Scenario(
        name="two equal arms, quick",
        setting=setting,
        simulate=events.equal_pair(noise),
        bounds=EQUAL,
        brief=brief,
    )


def _injected(
    setting: str, simulate: Simulate, at_least: float, brief: int = 0, long: int = 500
) -> Scenario:
    return Scenario(
        name="injected",
        setting=setting,
        simulate=simulate,
        bounds={"proven, right sign": Bound(at_least, 1), "wrong sign": NEVER},
        brief=brief,
        long=long,
    )


LOOKS = {
    "an interval of any look excludes 1": FAMILY,
    "different at any look": FAMILY,
    "any proven at any look": FAMILY,
}


def _watched(setting: str, simulate: Simulate, brief: int = 0, long: int = 400) -> Scenario:
    return Scenario(
        name="equal arms, a look after every block",
        setting=setting,
        simulate=simulate,
        bounds=LOOKS,
        brief=brief,
        long=long,
    )


SCENARIOS = (
    _watched("two, native, 9 blocks", events.equal_at_every_look(Noise()), brief=60),
    _watched("two, Go and Node, 9 blocks", events.equal_at_every_look(Noise(starts=(GO, NODE)))),
    _watched(
        "two, t with 3 df, 9 blocks", events.equal_at_every_look(Noise(shape=Shape.HEAVY_TAILS))
    ),
    _watched("two, linear drift, 9 blocks", events.equal_at_every_look(Noise(drift=Drift.LINEAR))),
    _watched("two, native, 40 blocks", events.equal_at_every_look(Noise(), blocks=40), long=40),
    _watched("ten, native, 9 blocks", events.equal_at_every_look(Noise(), arms=10), long=40),
    _watched(
        "seven, starts of three vary by 16 %, 9 blocks",
        events.equal_at_every_look(Noise(starts=(*[NOISY] * 3, NATIVE)), arms=7),
        brief=3,
        long=100,
    ),
    _watched(
        "seven, t with 3 df, 9 blocks",
        events.equal_at_every_look(Noise(shape=Shape.HEAVY_TAILS), arms=7),
        long=100,
    ),
    Scenario(
        name="unlike arms, until decided",
        setting="native and Node, ratio 1.3",
        simulate=events.ended_when_decided(Noise(starts=(NATIVE, NODE)), 1.3),
        bounds={
            "interval covers the truth": Bound(0.93, 1),
            "wrong sign": NEVER,
            "decided": Bound(0.9, 1),
        },
        brief=100,
        long=1000,
    ),
    _equal("native", Noise(), brief=150),
    _equal("Go and Node", Noise(starts=(GO, NODE)), brief=150),
    _equal("t with 3 df", Noise(shape=Shape.HEAVY_TAILS), brief=150),
    _equal("spikes in 5 %", Noise(shape=Shape.SPIKES)),
    _equal("linear drift", Noise(drift=Drift.LINEAR)),
    _equal("AR(1) drift", Noise(drift=Drift.WANDERING)),
    Scenario(
        name="two equal arms, quick",
        setting="p99 that varies by 10 %",
        simulate=events.equal_latencies,
        bounds={"interval excludes 1": NOMINAL},
    ),
    Scenario(
        name="two equal arms, six blocks",
        setting="native",
        simulate=events.fewest_blocks,
        bounds={"interval excludes 1": Bound(0.04, 0.06)},  # Student's own case: exactly 0.05
        brief=600,
        long=5000,
    ),
    Scenario(
        name="unlike arms, quick",
        setting="native and Node, ratio 1.3",
        simulate=events.unlike_pair,
        bounds={"interval covers the truth": COVERED, "wrong sign": NEVER},
        brief=150,
    ),
    _injected(
        "paired trials of like arms, quick, +1 %",
        events.injected(1, LIKE, Mode.QUICK, Method.PAIRED),
        0.8,
        100,
    ),
    _injected(
        "paired trials of like arms, standard, +1 %",
        events.injected(1, LIKE, Mode.STANDARD, Method.PAIRED),
        0.8,
    ),
    _injected(
        "paired trials of like arms, standard, +2 %",
        events.injected(2, LIKE, Mode.STANDARD, Method.PAIRED),
        0.95,
    ),
    _injected(
        "time slices, pair's sd 1 %, standard, +1 %", events.injected(1, QUIET, Mode.STANDARD), 0
    ),
    _injected(
        "time slices, pair's sd 1 %, standard, +2 %", events.injected(2, QUIET, Mode.STANDARD), 0.8
    ),
    _injected(
        "time slices, pair's sd 1 %, quick, +5 %", events.injected(5, QUIET, Mode.QUICK), 0.95
    ),
    _injected(
        "time slices, pair's sd 3 %, quick, +5 %", events.injected(5, Noise(), Mode.QUICK), 0.8, 100
    ),
    _injected(
        "time slices, pair's sd 3 %, standard, +2 %",
        events.injected(2, Noise(), Mode.STANDARD),
        0.8,
    ),
    _injected(
        "time slices, pair's sd 3 %, standard, +5 %",
        events.injected(5, Noise(), Mode.STANDARD),
        0.95,
    ),
    Scenario(
        name="ten equal arms, quick",
        setting="45 comparisons, native, Go and Node",
        simulate=events.family(Shape.NORMAL),
        bounds={"any proven": FAMILY},
        brief=60,
        long=1000,
    ),
    Scenario(
        name="ten equal arms, quick",
        setting="45 comparisons, t with 3 df",
        simulate=events.family(Shape.HEAVY_TAILS),
        bounds={"any proven": FAMILY},
        long=1000,
    ),
    Scenario(
        name="ten arms, five equal, quick",
        setting="45 comparisons, native",
        simulate=events.half_equal,
        bounds={"any proven of the equal": FAMILY, "proven of the others": Bound(0.95, 1)},
        long=1000,
    ),
    Scenario(
        name="cross-checks of a right verdict",
        setting="native, ratio 1.1",
        simulate=events.agreeing_checks(Noise()),
        bounds=AGREE,
        brief=150,
    ),
    Scenario(
        name="cross-checks of a right verdict",
        setting="t with 3 df, ratio 1.1",
        simulate=events.agreeing_checks(Noise(shape=Shape.HEAVY_TAILS)),
        bounds=AGREE,
    ),
    Scenario(
        name="cross-checks of a right verdict",
        setting="native and Node, AR(1) drift, ratio 1.1",
        simulate=events.agreeing_checks(Noise(drift=Drift.WANDERING, starts=(0.01, NODE))),
        bounds=AGREE,
    ),
    Scenario(
        name="cross-checks of a wrong verdict",
        setting="sd 1 %, ratio 1.1, alone 0.88",
        simulate=events.contradicting_check,
        bounds={"verdict withdrawn": Bound(0.9, 1)},
        brief=60,
        long=500,
    ),
    Scenario(
        name="four useless knobs",
        setting="time slices, pair's sd 3 %",
        simulate=events.useless_knobs(Method.TIME_SLICED),
        bounds={"any accepted": FAMILY},
        brief=80,
        long=1000,
    ),
    Scenario(
        name="four useless knobs",
        setting="paired trials of like arms",
        simulate=events.useless_knobs(Method.PAIRED),
        bounds={"any accepted": FAMILY},
        long=1000,
    ),
    Scenario(
        name="claims of an experiment",
        setting="six whose bounds are the truth",
        simulate=events.borderline_claims,
        bounds={"any answered": FAMILY},
        brief=90,
        long=1000,
    ),
    Scenario(
        name="claims of an experiment",
        setting="three that hold",
        simulate=events.true_claims,
        bounds={"answered wrongly": NEVER, "answered": Bound(0.8, 1)},
        brief=60,
        long=500,
    ),
)
