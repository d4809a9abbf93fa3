"""The cases of applications against one server: its recipe is started with their application."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jissoku.conformance.applications import judge_case, read_cases
from jissoku.errors import InputError
from jissoku.model import Workload
from jissoku.model.recipe import StartCommand
from jissoku.system.cores import available_cores
from jissoku.targets.launch import Launcher
from jissoku.targets.prepare import PreparedTarget

# The application of a recipe, and that of the cases, beside each other.
CONTRACT_MODULE, CASES_MODULE = "wsgi_app", "wsgi_cases"

CASES = Path(__file__).parents[3] / "conformance" / "apps" / "wsgi.toml"

# A server that exits again and again is not started for ever.
RESTARTS_MAX = 20

# An exiting process closes its connections first.
EXIT_LIMIT_S = 0.5


@dataclass(frozen=True, slots=True)
class AppCaseResult:
    """What became of one case.

    Attributes:
        name: Of the case.
        clause: Of the specification.
        wrong: What is wrong with the answers; empty if nothing is.
    """

    name: str
    clause: str
    wrong: str


def run_app_cases(prepared: PreparedTarget) -> Iterator[AppCaseResult]:
    """Runs every case; the server is started again when it exits over one.

    Raises:
        InputError: The recipe does not serve our WSGI application.
        TargetError: The server cannot be started.
    """
    served = _with_cases(prepared)
    left = read_cases(CASES)
    launcher = Launcher(cores=available_cores(), rng=random.Random(0), workers=1)
    workload = Workload(headers=(("Case", "hello"),))
    for _ in range(RESTARTS_MAX):
        if not left:
            return
        with launcher.ready(served, workload) as running:
            while left and running.is_alive():
                case = left.pop(0)
                wrong = judge_case(case, running.address)
                if wrong and not running.is_alive_after(EXIT_LIMIT_S):
                    wrong = f"{running.exit_description()} over it"
                yield _result(case, wrong)
    for case in left:
        yield _result(case, f"not run: the server had exited {RESTARTS_MAX} times")


def _result(case: dict[str, Any], wrong: str) -> AppCaseResult:
    return AppCaseResult(name=case["name"], clause=case["clause"], wrong=wrong)


def _with_cases(prepared: PreparedTarget) -> PreparedTarget:
    """The target with the application of the cases instead of the contract's."""
    start = prepared.start
    if start is None:
        raise InputError("--apps needs a recipe: its server is started with another application")
    command = tuple(word.replace(CONTRACT_MODULE, CASES_MODULE) for word in start.command)
    if command == start.command and not any("wsgi_native.py" in word for word in command):
        raise InputError(f"{prepared.name} does not serve {CONTRACT_MODULE}.py, see its recipe")
    environment = {**start.environment, "WSGI_MODULE": CASES_MODULE}
    return replace(prepared, start=StartCommand(command=command, environment=environment))
