"""The complete sequence: from target names to a folder of records.

Configuration -> targets prepared -> each verified -> run header -> pilot -> blocks of trials, each
recorded as it ends -> (a reader turns records into a summary and a report). Stages do not depend on
each other; this package passes values from one to the next.
"""

from jissoku.pipeline.compare import compare
from jissoku.pipeline.compare_config import CompareConfig, LoadMode
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
