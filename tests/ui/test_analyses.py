"""Explanations, tunings and profiles: listed, shown, and measured again as they were asked for."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jissoku.explain import findings
from jissoku.measure.reports import write_explanation, write_tuning
from jissoku.model.explanation import Explanation
from jissoku.model.updated import updated
from jissoku.records import write_profiles
from jissoku.records.run_folder import DOCUMENTS, RUN_FILE
from jissoku.request import from_argv
from jissoku.ui.analyses import VERBS, key_of
from jissoku.ui.server import UiConfig, pages_in_thread
from tests.explain.factories import function
from tests.profiles.factories import MAIN, profile
from tests.tune.test_report import TUNING
from tests.ui.conftest import HOSTILE, RECORDS, Client, client_of

ASKED = {
    "explain": "explain jissoku --path /42 -c 8 --probe wire",
    "tune": "tune jissoku --knobs one_worker --standard",
    "profile": "profile jissoku -d 5 -F 99",
}


def asked(verb: str) -> Any:
    return from_argv(ASKED[verb].split())


def an_explanation() -> Explanation:
    observed = function("malloc")
    return Explanation(
        target="nginx",
        version="nginx/1.22",
        path="/42",
        observations=observed,
        findings=findings(observed),
        request=asked("explain"),
    )


def write_analyses(root: Path) -> None:
    """One of each, a tuning's runs below it, and three that cannot be read."""
    write_explanation(root / "explained", an_explanation())
    write_tuning(root / "tuned", updated(TUNING, request=asked("tune")))
    for name in ("alone", "without", "proof"):
        shutil.copytree(RECORDS / "repeatability" / "51", root / "tuned" / name)
        header = json.loads((root / "tuned" / name / RUN_FILE).read_text())
        header |= {"verb": "tune", "seed": len(name), "labels": {"of": name}}
        (root / "tuned" / name / RUN_FILE).write_text(json.dumps(header))
    write_profiles(root / "profiled", [updated(profile((300, (MAIN,))), request=asked("profile"))])
    for number, name in enumerate(DOCUMENTS):
        broken = root / f"broken{number}"
        broken.mkdir()
        (broken / name).write_text(f'{{"schema": "{HOSTILE.replace(chr(34), "")}"}}\n')


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("analyses") / "runs"
    write_analyses(root)
    return root


@pytest.fixture(scope="module")
def shown(roots: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    cache = tmp_path_factory.mktemp("index")
    config = UiConfig(listen="127.0.0.1", port=0, roots=(roots,), cache=cache)
    with pages_in_thread(config) as link:
        yield client_of(link)


def test_all_are_listed_with_what_they_found(shown: Client, roots: Path) -> None:
    text = shown.get("/analyses").text
    for folder in ("explained", "tuned", "profiled", "broken0", "broken1", "broken2"):
        assert f'href="/analyses/{key_of(roots / folder)}"' in text
    assert "Proven for nginx" in text
    assert "CPU time per request: " in text
    assert "<script>alert" not in text
    rows = json.loads(shown.get("/analyses?format=json").text)["analyses"]
    assert sorted(VERBS[row["document"]] for row in rows) == sorted(2 * [*ASKED])
    assert sum(bool(row["problem"]) for row in rows) == 3


@pytest.mark.parametrize(
    ("verb", "folder"), [*zip(ASKED, ("explained", "tuned", "profiled"), strict=True)]
)
def test_each_is_shown_and_measured_again_as_it_was_asked_for(
    verb: str, folder: str, shown: Client, roots: Path
) -> None:
    answer = shown.get(f"/analyses/{key_of(roots / folder)}")
    assert answer.status == 200
    (record,) = json.loads(shown.get(f"/analyses/{key_of(roots / folder)}?format=json").text)[
        "records"
    ]
    assert record["request"]["verb"] == verb
    link = answer.text.partition('<a href="/start?')[2].partition('"')[0]
    assert link.endswith(f"#{verb}")
    form = shown.get(f"/start?{link.partition('#')[0].replace('&amp;', '&')}").text
    form = form.partition(f'<section id="{verb}">')[2].partition("</form>")[0]
    others = {"explain": "--probe wire", "tune": "", "profile": "-F 99"}[verb]
    assert not others or f"<code>{others}</code>" in form


def test_what_cannot_be_read_says_why(shown: Client, roots: Path) -> None:
    for number in range(len(DOCUMENTS)):
        answer = shown.get(f"/analyses/{key_of(roots / f'broken{number}')}")
        assert answer.status == 200
        assert "this version reads" in answer.text
        assert "<script>alert" not in answer.text


@pytest.mark.parametrize("key", ["0" * 16, "..%2F..%2Fetc", "tuned"])
def test_no_path_comes_from_a_request(key: str, shown: Client) -> None:
    assert shown.get(f"/analyses/{key}").status == 404


def test_the_runs_of_one_tuning_are_one_row(shown: Client, roots: Path) -> None:
    text = shown.get("/").text
    (row,) = [one for one in text.split("<tr>") if 'name="run"' in one]
    assert "Proven for nginx" in row
    assert f'href="/analyses/{key_of(roots / "tuned")}"' in row
    assert row.count('href="/runs/') == 3
    assert "also " in row
    page = shown.get(f"/analyses/{key_of(roots / 'tuned')}").text
    assert all(f">{name}</a>" in page for name in ("alone", "without", "proof"))
