"""`compare`: a run with a fixed number of blocks, or one that ends when its verdicts are there."""

from jissoku.measure.anytime import AnytimeRun
from jissoku.measure.compare_config import CompareConfig, run_header
from jissoku.measure.comparison_run import ComparisonRun
from jissoku.measure.progress import ProgressListener, RecordedProgress
from jissoku.measure.trial_runner import TrialRunner
from jissoku.records import RunWriter
from jissoku.records.events import EventWriter
from jissoku.system.cores import pin_process
from jissoku.system.interruption import Interrupted, Interruption


def compare(config: CompareConfig, listener: ProgressListener) -> bool:
    """Runs a campaign until it ends or is interrupted; its records are in the configured folder.

    Returns:
        Whether it ran to its end; every finished trial is on disk in any case.

    Raises:
        InputError: The folder holds a run already or cannot be written.
    """
    run = run_header(config)
    with (
        Interruption() as interruption,
        pin_process(config.cores.generator),
        RunWriter(config.folder, run) as store,
        EventWriter(config.folder) as events,
    ):
        benchmark = TrialRunner(config.arms_prepared, config.cores, interruption)
        order = AnytimeRun if config.plan.horizon else ComparisonRun
        campaign = order(config, run, benchmark, store, RecordedProgress(listener, events))
        try:
            campaign.run()
        except Interrupted:
            blocks = len({trial.block for trial in campaign.trials})
            store.stop_early(f"it was interrupted in block {blocks}")
            return False
    return True
