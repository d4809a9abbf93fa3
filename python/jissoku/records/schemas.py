"""Every kind of record, and its JSON Schema (2020-12) as generated from its type.

`python -m jissoku.records.schemas FOLDER` writes one file for each kind.
"""

import sys
from inspect import cleandoc
from pathlib import Path
from typing import Any

import msgspec

from jissoku.model import CounterReadings, Run, Summary, Sweep, SweepSummary, Trial, TuningResult
from jissoku.model.calibration import CostRecord, Scorecard
from jissoku.model.experiment import BenchmarkOutput, ExperimentHeader, ExperimentResult
from jissoku.model.explanation import Explanation
from jissoku.model.history import Dismissal
from jissoku.model.machines import MachinesRun, MachinesSummary, Outcome
from jissoku.model.profile import Profile
from jissoku.model.run import NoiseFloors

DIALECT = "https://json-schema.org/draft/2020-12/schema"

# By the name of the kind, which is that of its schema if it has one.
RECORDS: dict[str, Any] = {
    "run": Run,
    "trial": Trial,
    "summary": Summary,
    "sweep": Sweep,
    "sweep-summary": SweepSummary,
    "experiment": ExperimentHeader,
    "counters": dict[str, CounterReadings],
    "benchmarks": dict[str, BenchmarkOutput],
    "outcome": ExperimentResult,
    "tuning": TuningResult,
    "explanation": Explanation,
    "calibration": Scorecard,
    "cost": CostRecord,
    "noise": NoiseFloors,
    "profile": Profile,
    "dismissal": Dismissal,
    "machines-run": MachinesRun,
    "machine-outcome": Outcome,
    "machines": MachinesSummary,
}


def json_schema(kind: str) -> str:
    """The same text with every version of Python and of msgspec."""
    schema = {"$schema": DIALECT} | _alike(msgspec.json.schema(RECORDS[kind]))
    return msgspec.json.format(msgspec.json.encode(schema), indent=1).decode() + "\n"


def _alike(schema: Any) -> Any:
    """Without what depends on versions.

    The indentation of docstrings is kept before msgspec 0.23 or Python 3.13, and the names of
    properties are restricted to those of an enumeration since msgspec 0.23.
    """
    if isinstance(schema, list):
        return [_alike(value) for value in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: cleandoc(value) if key == "description" and isinstance(value, str) else _alike(value)
        for key, value in schema.items()
        if key != "propertyNames"
    }


def write_schemas(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for kind in RECORDS:
        (folder / f"{kind}.json").write_text(json_schema(kind), encoding="utf-8")


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]))
