"""The complete sequence: from target names to a folder of records.

Question -> targets prepared -> each looked at once -> run header -> pilot -> blocks of trials, each
recorded as it ends -> (a reader turns records into a summary and a report). Stages know nothing of
each other; what one leaves for the next is a value, and it is carried here.
"""

from jissoku.pipeline.compare_config import CompareConfig, LoadMode
from jissoku.pipeline.comparison_run import compare
from jissoku.pipeline.progress import ProgressListener
from jissoku.pipeline.sweep import SweepConfig, run_sweep
from jissoku.pipeline.trial_runner import PreparedArm

__all__ = [
    "CompareConfig",
    "LoadMode",
    "PreparedArm",
    "ProgressListener",
    "SweepConfig",
    "compare",
    "run_sweep",
]
