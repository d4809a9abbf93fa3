"""The records that are kept: each report is rebuilt from them, and no machine is named."""

import re
from pathlib import Path

import pytest

from jissoku.measure import experiment, experiment_file
from jissoku.report import experiment as report

RECORDS = Path(__file__).parent.parent / "records"
NAMES = sorted(path.parent.name for path in RECORDS.glob("*/experiment.json"))

# A folder of one machine; recipes name programs in /usr and /etc.
ABSOLUTE = re.compile(rb"/(?:home|root|tmp|work|opt)/")


def test_every_experiment_has_its_records() -> None:
    assert {path.stem for path in experiment_file.builtin_experiments()} == {*NAMES}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_kept_report_is_what_its_records_say(name: str) -> None:
    outcome = experiment.read_result(RECORDS / name)
    assert outcome.is_finished
    assert report.to_markdown(outcome) == (RECORDS / name / "report.md").read_text("utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_a_record_names_no_folder_of_a_machine(name: str) -> None:
    for path in (RECORDS / name).rglob("*.*"):
        assert not ABSOLUTE.search(path.read_bytes()), path
