from pathlib import Path

import pytest

from jissoku.errors import InputError
from jissoku.measure import knob_changes
from jissoku.measure.knob_changes import TuningTarget
from jissoku.model import ChangeKind, ConfigFile, Knob, KnobChange, Origin, StartCommand
from jissoku.targets import catalogue
from jissoku.targets.prepare import PreparedTarget

BASE = PreparedTarget(
    name="it",
    origin=Origin.RECIPE,
    version="1",
    start=StartCommand(command=("{program}", "{listen}"), environment={"A": "1"}),
    config=(ConfigFile(name="it.conf", text="pid {run}/pid;\nhttp { sendfile off; }\n"),),
)


def knob(name: str, what: ChangeKind, value: str, changed: str = "") -> Knob:
    change = KnobChange(kind=what, name=changed, value=value)
    return Knob(name=name, why="It is tested.", counter="openat", change=(change,))


KNOBS = (
    knob("sendfile", ChangeKind.DIRECTIVE, "on", "sendfile"),
    knob("same", ChangeKind.ENVIRONMENT, "1", "A"),
    knob("b", ChangeKind.ENVIRONMENT, "2", "B"),
    knob("fast", ChangeKind.ARGUMENT, "--fast now"),
)
RECIPE = catalogue.recipes()["nginx"]


def made() -> TuningTarget:
    return knob_changes.target_of_recipe(RECIPE, KNOBS, BASE)


def test_knobs_change_configuration_environment_and_command() -> None:
    found = made().prepared(("sendfile", "b", "fast"))
    assert found.config[0].text == "pid {run}/pid;\nhttp { sendfile on; }\n"
    assert found.start == StartCommand(
        command=("{program}", "{listen}", "--fast", "now"), environment={"A": "1", "B": "2"}
    )
    assert made().prepared(()) == BASE


def test_a_knob_that_changes_nothing_is_not_tried() -> None:
    assert [one.name for one in made().knobs] == ["sendfile", "b", "fast"]
    assert made().skipped == {"same": "is so already"}


def test_the_diff_names_all_that_is_changed() -> None:
    diff = made().diff(("sendfile", "b", "fast"))
    for line in ("+http { sendfile on; }", "+B=2", "+{program} {listen} --fast now"):
        assert line in diff.splitlines()


def test_a_recipe_without_knobs_cannot_be_tuned() -> None:
    with pytest.raises(InputError, match="the recipe nginx has no knobs"):
        knob_changes.target_of_recipe(RECIPE, (), BASE)


def test_a_configuration_is_read_and_never_written(tmp_path: Path) -> None:
    path = tmp_path / "nginx.conf"
    path.write_text("events {}\nhttp { server { listen 80; } sendfile off; }\n")
    path.chmod(0o400)
    before = path.stat()
    found = knob_changes.target_of_configuration(path, BASE, RECIPE.knob, prefix="/usr/share/nginx")
    assert {one.name for one in found.knobs} >= {"open_file_cache", "sendfile"}
    assert found.skipped["access_log_buffer"] == "is so already"
    assert "+http { server { listen 80; } sendfile on; }" in found.diff(("sendfile",))
    assert "sendfile on" in found.prepared(("sendfile",)).config[0].text
    assert path.stat().st_mtime_ns == before.st_mtime_ns
