"""What `jissoku run` says before it starts."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from jissoku.cli import run as verb
from jissoku.cli.progress import Show
from jissoku.model import Missing, Mode
from jissoku.pipeline import experiment_file
from jissoku.pipeline.experiment import about
from jissoku.targets import catalogue
from tests.conftest import Run


def test_without_a_name_ours_are_listed_with_what_is_missing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verb, "missing", lambda recipe, _: recipe.name == "h2o")
    done = run(["run"], tmp_path)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    for path in experiment_file.known():
        (at,) = (index for index, line in enumerate(lines) if line.startswith(f"{path.stem} "))
        targets = experiment_file.read(path, catalogue.recipes()).target
        lacks = any(one.recipe == "h2o" for one in targets)
        assert (lines[at + 1].split() == ["missing", "here:", "h2o"]) is lacks
    assert "`jissoku run NAME` runs one" in done.stdout


def test_what_is_missing_costs_the_claims_that_speak_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    experiment = experiment_file.read(experiment_file.find("uds-keepalive"), catalogue.recipes())
    assert about(experiment, {"meinheld"}) == ("e-wsgi",)
    lacking = Missing(name="meinheld", reason="there is none", remedy="sudo " + "x" * 90)
    header = SimpleNamespace(
        experiment=experiment,
        missing=(lacking,),
        left_out={"apps": "nobody came"},
        mode=Mode.QUICK,
        minutes=1.25,
        seed=7,
    )
    plan = SimpleNamespace(header=header, questions=(1,), wish=SimpleNamespace(folder="here"))
    with Show() as show:
        verb._tell(plan, show)  # type: ignore[arg-type]
    said = capsys.readouterr().err.splitlines()
    assert said == [
        lacking.sentence,
        "  Claims that speak of it: e-wsgi.",
        "Workload apps is left out: nobody came.",
        "Quick: about 1.2 minutes for 1 workload; seed 7; records go to here.",
    ]
