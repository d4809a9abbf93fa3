"""`jissoku conformance --apps`."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from jissoku.conformance.applications import MismatchError, compare
from jissoku.conformance.messages import Response
from tests.apps.app_cases import read_cases
from tests.conftest import Run

COMMAND = ["conformance", "--apps"]


FILES = {"wsgi": ["wsgi.toml"], "asgi": ["asgi.toml", "websocket.toml"]}


@pytest.mark.slow
@pytest.mark.parametrize("interface", FILES)
def test_every_case_is_run_against_a_recipe(run: Run, tmp_path: Path, interface: str) -> None:
    done = run([*COMMAND, f"jissoku-{interface}", "--json"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    seen = json.loads(done.stdout)
    assert seen["target"] == f"jissoku-{interface}"
    files = (read_cases(name) for name in FILES[interface])
    names = [case["name"] for case in itertools.chain.from_iterable(files)]
    assert [case["name"] for case in seen["cases"]] == names
    assert not any(case["wrong"] for case in seen["cases"])


def test_a_target_without_our_application_is_refused(run: Run, tmp_path: Path) -> None:
    done = run([*COMMAND, "jissoku"], tmp_path)
    assert done.returncode == 2
    assert "serves neither wsgi_app.py nor asgi_app.py" in done.stderr
    done = run([*COMMAND, "--url", "x=http://127.0.0.1:1/"], tmp_path)
    assert done.returncode == 2
    assert "--apps needs a recipe" in done.stderr


def differs(expected: dict[str, Any], answer: Response) -> str:
    try:
        compare(expected, answer)
    except MismatchError as error:
        return str(error)
    return ""


def test_a_difference_is_named() -> None:
    answer = Response(version="1.1", status=200, fields=(("date", "x"),), body=b'{"a": 1}')
    assert not differs({"status": 200, "has": {"Date": "x"}, "json": {"a": 1}}, answer)
    assert differs({"status": 404}, answer) == "status 200 instead of 404"
    assert differs({"has": {"Date": "y"}}, answer) == "Date: 'x' instead of 'y'"
    assert differs({"lacks": ["Date"]}, answer) == "there is a field Date"
    assert differs({"json": {"a": 2, "b": 1}}, answer) == "a is 1 instead of 2"
