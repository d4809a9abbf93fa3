"""The output of `jissoku run` before it starts."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from jissoku.cli import measuring as verb
from jissoku.cli.progress import ProgressDisplay
from jissoku.measure import experiment_file
from jissoku.measure.experiment import claims_about
from jissoku.model import Mode, UnavailableTarget
from jissoku.targets import catalogue
from tests.conftest import Run


@pytest.mark.slow
def test_without_a_name_ours_are_listed_with_what_is_missing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verb, "missing_requirement", lambda recipe, _: recipe.name == "h2o")
    done = run(["run"], tmp_path)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    for path in experiment_file.builtin_experiments():
        (at,) = (index for index, line in enumerate(lines) if line.startswith(f"{path.stem} "))
        targets = experiment_file.read(path, catalogue.recipes()).target
        lacks = any(one.recipe == "h2o" for one in targets)
        assert (lines[at + 1].split() == ["unavailable", "here:", "h2o"]) is lacks
    assert "`jissoku run NAME` runs one" in done.stdout


def test_what_is_missing_costs_the_claims_that_speak_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    experiment = experiment_file.read(
        experiment_file.find_experiment("uds-keepalive"), catalogue.recipes()
    )
    assert claims_about(experiment, {"meinheld"}) == ("e-wsgi",)
    unavailable = UnavailableTarget(
        name="meinheld", reason="there is none", install_hint="sudo " + "x" * 90
    )
    header = SimpleNamespace(
        experiment=experiment,
        unavailable=(unavailable,),
        skipped={"apps": "no trial finished"},
        mode=Mode.QUICK,
        minutes=1.25,
        seed=7,
    )
    plan = SimpleNamespace(header=header, comparisons=(1,), config=SimpleNamespace(folder="here"))
    with ProgressDisplay() as show:
        verb._print_plan(plan, show)  # type: ignore[arg-type]
    said = capsys.readouterr().err.splitlines()
    assert said == [
        unavailable.sentence,
        "  Claims about it: e-wsgi.",
        "Workload apps is skipped: no trial finished.",
        "Quick: about 1.2 minutes for 1 workload; seed 7; records go to here.",
    ]
