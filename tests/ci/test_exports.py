"""Files for other tools, as their readers parse them; the values are those of the run."""

import csv
import json
import re
from xml.etree import ElementTree as ET

import pytest

from jissoku.inference import summarise
from jissoku.inference.bounds import bound_results
from jissoku.inference.latency import block_costs
from jissoku.model import Run, Trial
from jissoku.model.summary import BoundResult
from jissoku.model.updated import updated
from jissoku.report.bounds import FORMATS
from tests.ci.test_bounds import BOUND, measured
from tests.inference.factories import Noise

BASE_NS, HEAD_NS = 10_000, 10_500
BLOCKS = 9

# Blocks share no noise, so that values are near the true ones, and not only their ratios.
NOISE = Noise(block=0.0, own=0.004)


def exported(name: str, run: Run, trials: tuple[Trial, ...], found: tuple[BoundResult, ...]) -> str:
    return FORMATS[name](summarise(run, trials), block_costs(run, trials), found)


def text_of(name: str) -> str:
    run, trials = measured(HEAD_NS / BASE_NS, seed=1, noise=NOISE)
    run = updated(run, labels={"commit": "abc,def"})
    return exported(name, run, trials, bound_results(run, trials, [BOUND]))


def benchfmt_keys(name: str) -> dict[str, str]:
    """The keys of a benchmark's name, split as by golang.org/x/perf/benchfmt."""
    prefix, processors = re.fullmatch(r"(.*?)(?:-(\d+))?", name).groups()  # type: ignore[union-attr]
    keys = dict(part.split("=", 1) for part in prefix.split("/")[1:])
    return keys | ({"gomaxprocs": processors} if processors else {})


def test_benchstat_finds_an_arm_whose_name_has_a_number_or_a_slash_at_its_end() -> None:
    run, trials = measured(1.0, seed=1, noise=NOISE)
    costs = block_costs(run, trials)
    named = {(load, {"head": "head-2", "base": "v1/2"}.get(arm, arm)): values
             for (load, arm), values in costs.items()}  # fmt: skip
    _, *lines = FORMATS["benchstat"](summarise(run, trials), named, ()).splitlines()
    arms = {benchfmt_keys(line.split(" ")[0])["arm"] for line in lines}
    assert arms == {"head-2", "v1-2", "base-again"}
    assert all("gomaxprocs" not in benchfmt_keys(line.split(" ")[0]) for line in lines)


def test_benchstat_reads_the_unit_and_a_line_per_block_and_arm() -> None:
    """As golang.org/x/perf/benchfmt does: `Unit` begins metadata, lower case a configuration."""
    unit, *lines = text_of("benchstat").splitlines()
    assert unit == "Unit cpu-ns/req better=lower"
    values: dict[str, list[float]] = {}
    for line in lines:
        name, count, value, of = line.split(" ")
        assert (count, of) == ("1", "cpu-ns/req")
        values.setdefault(benchfmt_keys(name)["arm"], []).append(float(value))
        assert benchfmt_keys(name) == {"arm": benchfmt_keys(name)["arm"], "load": "20000rps"}
    assert {name: len(found) for name, found in values.items()} == dict.fromkeys(
        ("base", "head", "base-again"), BLOCKS
    )
    assert sum(values["head"]) / BLOCKS == pytest.approx(HEAD_NS, rel=0.01)


def test_bencher_has_a_value_within_its_limits() -> None:
    found = json.loads(text_of("bencher"))["head at 20000rps"]["cpu-ns-per-request"]
    assert found["lower_value"] < found["value"] < found["upper_value"]
    assert found["value"] == pytest.approx(HEAD_NS, rel=0.01)


def test_github_action_benchmark_has_a_range() -> None:
    entries = {one["name"]: one for one in json.loads(text_of("github-action-benchmark"))}
    head = entries["head at 20000rps"]
    assert head["unit"] == "CPU ns/request"
    assert head["value"] == pytest.approx(HEAD_NS, rel=0.01)
    low, high = map(int, head["range"].split("-"))
    assert low < head["value"] < high


def test_otava_has_a_column_per_arm_and_the_commit() -> None:
    (row,) = csv.DictReader(text_of("otava").splitlines())
    assert row["commit"] == "abc def"
    assert row["time"].startswith("20")
    assert float(row["base_20000rps_cpu_ns"]) == pytest.approx(BASE_NS, rel=0.01)
    assert float(row["head_20000rps_cpu_ns"]) == pytest.approx(HEAD_NS, rel=0.01)


@pytest.mark.parametrize(
    ("head", "end", "tag"),
    [(1.05, "failures", "failure"), (1.01, "skipped", "skipped"), (0.95, "", "")],
)
def test_junit_has_a_case_per_bound(head: float, end: str, tag: str) -> None:
    run, trials = measured(head, seed=3)
    text = exported("junit", run, trials, bound_results(run, trials, [BOUND]))
    suite = ET.fromstring(text)  # noqa: S314 - ours
    counts = {name: int(suite.get(name, "")) for name in ("tests", "failures", "skipped")}
    assert counts == {"tests": 1, "failures": 0, "skipped": 0} | ({end: 1} if end else {})
    (case,) = suite.iter("testcase")
    assert case.get("name") == BOUND
    assert [child.tag for child in case] == ([tag] if tag else [])
    assert all((child.get("message") or "").startswith(f"{BOUND}: ") for child in case)
