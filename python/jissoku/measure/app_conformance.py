"""The cases of applications against one server: its recipe is started with their application."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from jissoku.conformance.applications import (
    BUILTIN_CASES,
    expanded,
    judge_case,
    judge_websocket_case,
    read_cases,
)
from jissoku.errors import InputError
from jissoku.model import Workload
from jissoku.model.recipe import StartCommand
from jissoku.system.cores import available_cores
from jissoku.targets.launch import Launcher
from jissoku.targets.prepare import PreparedTarget

# The applications of recipes, and those of the cases.
CASES_MODULES = {"wsgi_app": "wsgi_cases", "asgi_app": "asgi_cases"}

# Cases of the application of each interface.
CASES_FILES = {"wsgi_app": ("wsgi.toml",), "asgi_app": ("asgi.toml", "websocket.toml")}

# Words of recipes that switch off what the cases need: the lifespan, by Granian's interface without
# it or an option of others, and WebSockets.
WITHOUT_LIFESPAN = {"asginl": "asgi", "off": "on"}
WITHOUT_WEBSOCKETS = "--no-ws"

# A server that exits again and again is not started for ever.
RESTARTS_MAX = 20

# An exiting process closes its connections first.
EXIT_LIMIT_S = 0.5


@dataclass(frozen=True, slots=True)
class AppCaseResult:
    """The result of one case.

    Attributes:
        name: Of the case.
        clause: Of the specification.
        wrong: The deviation of the answers; empty if there is none.
        group: The name without the value that distinguishes like cases.
    """

    name: str
    clause: str
    wrong: str
    group: str


def run_app_cases(prepared: PreparedTarget) -> Iterator[AppCaseResult]:
    """Runs every case; the server is restarted if it exits.

    Raises:
        InputError: The recipe serves neither of our applications.
        TargetError: The server cannot be started.
    """
    served, files = _with_cases(prepared)
    left = [case for name in files for case in expanded(read_cases(BUILTIN_CASES / name))]
    launcher = Launcher(cores=available_cores(), rng=random.Random(0), workers=1)
    workload = Workload(headers=(("Case", "hello"),))
    for _ in range(RESTARTS_MAX):
        if not left:
            return
        with launcher.ready(served, workload) as running:
            while left and running.is_alive():
                case = left.pop(0)
                # Those of WebSockets send a list of frames.
                is_text = isinstance(case["send"], str)
                judge = judge_case if is_text else judge_websocket_case
                wrong = judge(case, running.address)
                if wrong and not running.is_alive_after(EXIT_LIMIT_S):
                    wrong = f"{running.exit_description()} over it"
                yield _result(case, wrong)
    for case in left:
        yield _result(case, f"not run: the server had exited {RESTARTS_MAX} times")


def _result(case: dict[str, Any], wrong: str) -> AppCaseResult:
    name = case["name"]
    return AppCaseResult(
        name=name, clause=case["clause"], wrong=wrong, group=case.get("group", name)
    )


def _with_cases(prepared: PreparedTarget) -> tuple[PreparedTarget, tuple[str, ...]]:
    """The target with the application of the cases instead of the contract's, and their files."""
    start = prepared.start
    if start is None:
        raise InputError("--apps needs a recipe: its server is started with another application")
    words = " ".join(start.command)
    native = start.environment.get("APP_MODULE", "wsgi_app") if "wsgi_native.py" in words else None
    for contract, cases in CASES_MODULES.items():
        if f"{contract}:" not in words and contract != native:
            continue
        command = [word.replace(contract, cases) for word in start.command]
        if contract == "asgi_app":
            command = list(_with_all_of_asgi(command))
        environment = {**start.environment, "APP_MODULE": cases}
        started = StartCommand(command=tuple(command), environment=environment)
        return replace(prepared, start=started), CASES_FILES[contract]
    modules = " nor ".join(f"{contract}.py" for contract in CASES_MODULES)
    raise InputError(f"{prepared.name} serves neither {modules}, see its recipe")


def _with_all_of_asgi(command: list[str]) -> Iterator[str]:
    """The arguments of an ASGI server, with its lifespan and its WebSockets enabled."""
    before = ""
    for word in command:
        if word == WITHOUT_WEBSOCKETS:
            continue
        is_choice = before.endswith("-lifespan") or before == "--interface"
        yield WITHOUT_LIFESPAN.get(word, word) if is_choice else word
        before = word
