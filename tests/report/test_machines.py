"""Reports of a comparison on several machines."""

import json
import math
from functools import cache
from html.parser import HTMLParser

import pytest

from jissoku.inference.machines import measured_machine, over_machines
from jissoku.model import updated
from jissoku.model.machines import MachineOut, MachinesRun, MachinesSummary
from jissoku.report import to_json
from jissoku.report.machines import machines_to_html, machines_to_text
from jissoku.request import ComparisonRequest
from tests.inference import factories

MODELS = ("AMD EPYC 7R13", "Xeon <8275CL>")


@cache
def summary(logs: tuple[float, ...], out: int = 0) -> MachinesSummary:
    """Machines with these log ratios, of two processors in turn, and some more that are out."""
    machines = []
    for number, log in enumerate(logs, 1):
        run = factories.sliced(("a", "b"))
        run = updated(run, machine=updated(run.machine, cpu_model=MODELS[number % 2]))
        truths = {
            name: factories.TrueValues(cost_ns=cost)
            for name, cost in (("a", 10_000.0), ("b", 10_000.0 * math.exp(log)))
        }
        trials = factories.trials(run, truths, seed=number, solo_blocks=0)
        machines.append(measured_machine(number, run, trials))
    asked = MachinesRun(
        jissoku="jissoku of a test",
        started_utc="2026-11-30T09:00:00Z",
        seed=1,
        machines=len(logs) + out,
        request=ComparisonRequest(arms=("a", "b"), machine=("HOST",) * (len(logs) + out)),
    )
    gone = range(len(logs) + 1, len(logs) + out + 1)
    return over_machines(
        asked, machines, [MachineOut(machine=one, reason="it was <cut> off") for one in gone]
    )


SIX = (0.25, 0.27, 0.32, 0.24, 0.3, 0.28)


def test_the_text_begins_with_the_sentence_and_has_every_machine() -> None:
    text = machines_to_text(summary(SIX, out=1))
    assert text.startswith("b uses 1.3")
    first = " ".join(text.partition("\n\n")[0].split())
    assert "on 6 machines: uses more CPU, proven on each; the next machine like these:" in first
    assert "it was <cut> off" in text
    assert "Machines differ by" in text
    for number in range(1, 8):
        assert f"\n{number:>8} ".rstrip() in text or f" {number} " in text


def test_the_page_has_a_forest_with_a_row_for_each_machine_the_mean_and_the_next_one() -> None:
    page = machines_to_html(summary(SIX, out=1))

    class Names(HTMLParser):
        found: list[str] = []  # noqa: RUF012
        inside = False

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.inside = tag == "text" and ("class", "name") in attrs

        def handle_data(self, data: str) -> None:
            if self.inside:
                self.found.append(data)

        def handle_endtag(self, tag: str) -> None:
            del tag
            self.inside = False

    names = Names()
    names.feed(page)
    # By processor, and in it by number.
    amd = [f"{number}: {MODELS[0]}" for number in (2, 4, 6)]
    xeon = [f"{number}: {MODELS[1]}" for number in (1, 3, 5)]
    assert names.found == [*amd, *xeon, "mean of 6", "next machine"]
    assert "<8275CL>" not in page
    assert "it was &lt;cut&gt; off" in page


def test_the_json_has_what_is_needed_to_pool_again() -> None:
    found = json.loads(to_json(summary(SIX)))
    (one,) = found["comparisons"]
    assert found["schema"] == "jissoku.machines/1"
    assert [ratio["blocks"] for ratio in one["ratios"]] == [9] * 6
    assert all(ratio["error"] > 0 for ratio in one["ratios"])
    assert one["ratio"]["value"] == pytest.approx(math.exp(sum(SIX) / 6), rel=0.01)


@pytest.mark.parametrize(
    ("logs", "out", "says"),
    [
        ((0.3,), 0, "(one machine)"),
        ((0.2, 0.4), 0, "2 machines are not pooled"),
        ((0.3, 0.3), 1, "incomplete without machine 3"),
        ((), 2, "No machine has measured anything: it was <cut> off."),
        (
            (0.3, -0.3, 0.3),
            0,
            "it depends on the machine (proven: less on 1 and more on 2 of them)",
        ),
        ((0.0,) * 4, 0, "practically equal on average"),
    ],
)
def test_the_sentence_says_what_holds(logs: tuple[float, ...], out: int, says: str) -> None:
    found = summary(logs, out)
    assert says in found.headline
    text = " ".join(machines_to_text(found, width=200).split())
    assert " ".join(found.headline.split()) in text
    assert machines_to_html(found)
