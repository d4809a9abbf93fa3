import json
from pathlib import Path

import pytest

from jissoku.errors import JissokuError
from jissoku.model import Method
from jissoku.model.run import NoiseFloor
from jissoku.model.updated import updated
from jissoku.records import files
from jissoku.records.files import CAMPAIGNS_MIN
from tests.inference.factories import MACHINE

OTHER = updated(MACHINE, kernel="6.19.0")
QUIET = NoiseFloor(
    noise_floor=0.004,
    campaigns=20,
    blocks=9,
    block_sd_log=0.006,
    measured_utc="2026-11-22",
    jissoku="0.1.0",
)
NOISY = updated(QUIET, noise_floor=0.03)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """In a folder that is not there yet."""
    return tmp_path / "cache" / "noise.json"


def test_nothing_is_known_before_it_was_measured(file: Path) -> None:
    assert files.known_noise_floors(file, MACHINE) == {}


def test_what_was_kept_is_known(file: Path) -> None:
    files.keep_noise_floors(file, MACHINE, {Method.PAIRED: QUIET, Method.TIME_SLICED: NOISY})
    assert files.known_noise_floors(file, MACHINE) == {
        Method.PAIRED: 0.004,
        Method.TIME_SLICED: 0.03,
    }
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_machines_do_not_share_a_noise_floor(file: Path) -> None:
    files.keep_noise_floors(file, MACHINE, {Method.PAIRED: QUIET})
    assert files.known_noise_floors(file, OTHER) == {}
    files.keep_noise_floors(file, OTHER, {Method.PAIRED: NOISY})
    assert files.known_noise_floors(file, MACHINE) == {Method.PAIRED: 0.004}
    assert files.known_noise_floors(file, OTHER) == {Method.PAIRED: 0.03}


@pytest.mark.parametrize(
    "same",
    [
        updated(MACHINE, python="3.13.1"),
        updated(MACHINE, clocksource="tsc"),
        updated(MACHINE, memory_bytes=1),
    ],
)
def test_what_does_not_matter_makes_no_other_machine(same: object) -> None:
    assert isinstance(same, type(MACHINE))
    assert files.fingerprint(same) == files.fingerprint(MACHINE)


def test_a_later_measurement_replaces_its_own_method_only(file: Path) -> None:
    files.keep_noise_floors(file, MACHINE, {Method.PAIRED: QUIET, Method.TIME_SLICED: QUIET})
    files.keep_noise_floors(file, MACHINE, {Method.TIME_SLICED: NOISY})
    assert files.known_noise_floors(file, MACHINE) == {
        Method.PAIRED: 0.004,
        Method.TIME_SLICED: 0.03,
    }


def test_too_few_campaigns_have_no_noise_floor(file: Path) -> None:
    few = updated(QUIET, campaigns=CAMPAIGNS_MIN - 1)
    files.keep_noise_floors(file, MACHINE, {Method.PAIRED: few})
    assert files.known_noise_floors(file, MACHINE) == {}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"schema": "jissoku.noise/9", "machines": {}}', '{"machines": 1}']
)
def test_a_file_that_cannot_be_read_is_replaced(file: Path, text: str) -> None:
    file.parent.mkdir()
    file.write_text(text)
    assert files.known_noise_floors(file, MACHINE) == {}
    files.keep_noise_floors(file, MACHINE, {Method.PAIRED: QUIET})
    assert files.known_noise_floors(file, MACHINE) == {Method.PAIRED: 0.004}


def test_a_file_that_cannot_be_written_is_an_error(file: Path) -> None:
    file.mkdir(parents=True)
    (file / "in the way").touch()
    with pytest.raises(JissokuError, match="cannot be written"):
        files.keep_noise_floors(file, MACHINE, {Method.PAIRED: QUIET})


def test_it_says_how_it_was_measured(file: Path) -> None:
    files.keep_noise_floors(file, MACHINE, {Method.PAIRED: QUIET})
    document = json.loads(file.read_text())
    assert document["schema"] == "jissoku.noise/2"
    (entry,) = document["machines"].values()
    assert entry["kernel"] == MACHINE.kernel
    assert entry["methods"]["paired"]["campaigns"] == 20
