"""Knobs of a command of the user's own: those of the server that it starts."""

import shutil
import sys
from pathlib import Path

import pytest

from jissoku.measure.knob_changes import target_of_command
from jissoku.model import ListenArguments, Origin, StartCommand
from jissoku.targets import catalogue
from jissoku.targets.prepare import PreparedTarget

RECIPES = catalogue.recipes()


def command(*words: str, program: str = sys.executable) -> PreparedTarget:
    return PreparedTarget(
        name="mine",
        origin=Origin.COMMAND,
        version="1",
        start=StartCommand(command=words),
        listen=ListenArguments(tcp=("{port}",)),
        values={"program": program},
    )


def test_flags_are_added_to_a_command_or_changed_in_it() -> None:
    base = command(sys.executable, "-m", "gunicorn", "app:app", "--workers", "1", "-b", "{port}")
    found = target_of_command(base, RECIPES)
    assert found is not None
    assert {"workers", "keep_alive", "threads"} <= {knob.name for knob in found.knobs}
    switched = found.prepared(("workers", "keep_alive")).start
    assert switched is not None
    assert switched.command[:6] == (*base.start.command[:5], "{workers}")  # type: ignore[union-attr]
    assert switched.command[-4:] == ("--worker-class", "gthread", "--keep-alive", "75")
    assert found.name == "mine"
    assert "+" in found.diff(("keep_alive",))


def test_what_only_the_recipes_application_reads_is_left_out() -> None:
    found = target_of_command(command("node", "server.js"), RECIPES)
    assert found is not None
    assert {knob.name for knob in found.knobs} == {"production", "semi_space", "thread_pool"}


def test_a_program_of_another_kind_has_no_knobs() -> None:
    assert target_of_command(command(sys.executable, "app.py"), RECIPES) is None


@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")
def test_a_program_of_go_is_known_by_its_build_information() -> None:
    go = Path(str(shutil.which("go"))).resolve()
    found = target_of_command(command(str(go), program=str(go)), RECIPES)
    assert found is not None
    assert "gogc" in {knob.name for knob in found.knobs}
