"""Every verdict comes from one function, with the same intervals, checks and exclusions.

The calls are counted from the source, so that a second place that decides is a failure here, and
its reason has to be written down.
"""

import ast
from collections import Counter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "python" / "jissoku"

# By the name of a function as it is called: in which module of `inference`, and how often.
CALLS = {
    # The interval of a mean of logarithms at a look, and the rule of a verdict that widens it.
    "looks.interval": {"decision.py": 1},
    "rule.interval": {"decision.py": 2},
    # Of a value that no verdict rests on, such as an arm's cost: the other use of Student's t.
    "t_interval_from": {"estimate.py": 2},
    "t_interval": {"estimate.py": 1},
    # Also the choice between calm rotations and all of them, each of which has half of the error.
    "looks.p_value": {"decision.py": 1, "blocks.py": 1},
    "looks.p_equal": {"decision.py": 1},
    "estimate.critical": {"estimate.py": 2},
    "estimate.p_value": {"estimate.py": 1},
    # The verdict of one pair.
    "decision.judge_logs": {"decision.py": 1},
    # Costs and other metrics of `compare` (so of `tune` and `explain --verify`), rates at full load
    # of `tune`, and the ratio to a bound.
    "decision.decide": {
        "compare.py": 2,
        "ablation.py": 1,
        "decision.py": 1,
    },
    # Claims of `run`, and bounds of --fail-if: one that is decided, and one without values.
    "decision.decide_bound": {"claims.py": 1, "bounds.py": 2},
    "decision.with_checks": {"compare.py": 1, "decision.py": 1},
}
SETTLED = {
    "compare.py": 3,
    "ablation.py": 1,
    "claims.py": 1,
    "bounds.py": 1,
}
EXCLUDING = {
    "compare.py",
    "ablation.py",
    "claims.py",
    "bounds.py",
}


def calls(name: str) -> dict[str, int]:
    """Where a function is called; one of `decision` also without its module inside of it."""
    module, _, function = name.rpartition(".")
    found: Counter[str] = Counter()
    for path in sorted(PACKAGE.rglob("*.py")):
        place = str(path.relative_to(PACKAGE)).removeprefix("inference/")
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            owner, _, called = ast.unparse(node.func).rpartition(".")
            owner = owner.rpartition(".")[2]
            is_inside = place == f"{module}.py" and not owner
            if called == function and (owner == module or is_inside or not module):
                found[place] += 1
    return dict(found)


@pytest.mark.parametrize("name", CALLS)
def test_a_verdict_is_reached_in_one_place(name: str) -> None:
    assert calls(name) == CALLS[name]


def test_every_family_is_corrected_by_the_same_function() -> None:
    assert calls("decision.settle") == SETTLED
    # Across runs a change is at most suspected, and suspicions are a family of their own.
    across_runs = {"series.py": 1}
    assert calls("decision.holm") == {"decision.py": 1} | across_runs
    assert calls("decision.corrected") == {"decision.py": 1}


def test_who_decides_leaves_out_the_same_arms() -> None:
    """Those of `excluded_arms`, by the function or by the input that has its result."""
    deciding = set(CALLS["decision.decide"]) | set(CALLS["decision.decide_bound"])
    assert deciding - {"decision.py"} == EXCLUDING
    for place in EXCLUDING:
        assert "excluded_arms" in (PACKAGE / "inference" / place).read_text(), place
