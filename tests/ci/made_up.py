"""Campaigns with made-up trials: everything of a command but the load."""

from collections.abc import Callable

from jissoku.measure.comparison import CompareConfig, run_header
from jissoku.measure.progress import ProgressListener
from jissoku.model.updated import updated
from jissoku.records import RunWriter
from tests.inference import factories
from tests.inference.factories import Noise, TrueValues

Costs = Callable[[CompareConfig], dict[str, float]]
Campaign = Callable[[CompareConfig, ProgressListener], bool]

BASE_NS = 10_000.0
NOISE = Noise(own=0.004)


def campaign(costs: Costs, *, blocks: int = 40) -> Campaign:
    """Stands for `pipeline.compare`.

    Args:
        costs: Of arms that do not cost `BASE_NS`, in nanoseconds of CPU time per request.
        blocks: How many the run has.
    """

    def compare(config: CompareConfig, listener: ProgressListener, *_: object) -> bool:
        run = run_header(config)
        run = updated(run, loads=run.loads or (factories.MIDDLE,))
        known = costs(config)
        truths = {arm.name: TrueValues(cost_ns=known.get(arm.name, BASE_NS)) for arm in config.arms}
        with RunWriter(config.folder, run) as store:
            made = factories.trials(
                run,
                truths,
                blocks=blocks,
                check_blocks=0,
                solo_blocks=0,
                noise=NOISE,
                seed=config.seed,
            )
            for trial in made:
                store.add(trial)
        listener.note("made up")
        return True

    return compare
