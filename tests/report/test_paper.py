"""What a printed page names: the records behind it."""

import gzip
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from jissoku.measure.reports import report_text

RUN = Path(__file__).parents[2] / "records" / "repeatability" / "51"


@pytest.mark.slow
def test_a_page_names_the_hash_of_its_trials() -> None:
    digest = sha256(gzip.decompress((RUN / "trials.jsonl.gz").read_bytes())).hexdigest()
    assert f"trials.jsonl SHA-256 {digest}" in report_text(RUN, "html")


def test_a_page_without_trials_names_none(tmp_path: Path) -> None:
    shutil.copy(RUN / "run.json", tmp_path)
    assert "SHA-256" not in report_text(tmp_path, "html")
