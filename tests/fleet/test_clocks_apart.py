"""Time slices as a second measurement of two hosts' clocks, by trials through an agent."""

from pathlib import Path

import pytest

from jissoku.fleet.clock import Translation
from jissoku.inference.checks import trial_checks
from jissoku.measure.loadgen import TrialTiming
from jissoku.model import TrialKind
from tests.fleet.trials import bench, free_address, started

MS = 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize("off_ms", [0, 400])
def test_clocks_that_are_further_apart_than_their_bound_are_named(
    keys_folder: Path, monkeypatch: pytest.MonkeyPatch, off_ms: int
) -> None:
    translated = Translation.there_ns

    def there_ns(translation: Translation, here_ns: int) -> int:
        return translated(translation, here_ns) - off_ms * MS

    monkeypatch.setattr(Translation, "there_ns", there_ns)
    with (
        bench(free_address(), keys_folder) as (_, host),
        started(host, TrialKind.TIME_SLICED) as servers,
    ):
        trial = servers.measured(TrialTiming(500 * MS, 4_000 * MS, slice_ns=500 * MS))
    assert trial.failure is None
    found = [one for one in trial_checks(trial) if one.name == "clocks"]
    assert len(found) == (1 if off_ms else 0), found
