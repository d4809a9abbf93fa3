"""A constructed experiment: claims of every status, with and without published values."""

from functools import cache

from jissoku import inference
from jissoku.inference.claims import ClaimData, compare_published, evaluate_claims
from jissoku.model.experiment import Claim, ExperimentResult, PublishedFigure, UnobtainableTarget
from jissoku.model.updated import updated
from tests.experiments.test_claims import known

CLAIMS = (
    Claim(name="a", text="Cheap costs less.", test=("cost(cheap) / cost(dear) < 0.6",)),
    Claim(name="b", text="It is nearly twice as fast.", test=("rate(cheap) > 1.7 * rate(dear)",)),
    Claim(name="c", text="It is four times as fast.", test=("rate(cheap) / rate(dear) > 4",)),
    Claim(
        name="d",
        text="Two <are> alike & the dear one is last.",
        test=("0.9 < cost(like) / cost(cheap) < 1.1", "rate(dear) < rate(like)"),
    ),
    Claim(name="e", text="It is not a third faster.", test=("rate(dear) < 30_100",)),
    Claim(name="f", text="It reads once.", test=("calls.read(cheap) = 1",)),
    Claim(name="g", text="It is safe.", not_testable="there is no method"),
    Claim(name="h", text="Nothing is lost.", test=("cost(cheap@lost) < cost(dear@lost)",)),
)
PUBLISHED = (
    PublishedFigure(table="then", server="dear", value=10, unit="req/s", quantity="rate(dear)"),
    PublishedFigure(
        table="then", server="cheap", value=30, unit="req/s", quantity="rate(cheap@one)"
    ),
    PublishedFigure(table="then", server="like", value=15, unit="req/s", quantity="rate(like)"),
    PublishedFigure(table="then", server="gone", value=5, unit="req/s", note="it is not available"),
)


@cache
def outcome(claims: tuple[Claim, ...] = CLAIMS) -> ExperimentResult:
    """The answers, from campaigns whose truth is known."""
    made = known()
    experiment = updated(
        made.header.experiment,
        claim=claims,
        published=PUBLISHED,
        unobtainable=(
            UnobtainableTarget(name="gone", reason="it cannot be had", substitute="cheap"),
        ),
        source="a published page",
        year=2015,
    )
    whole = ClaimData(
        header=updated(made.header, experiment=experiment),
        workloads=made.workloads,
        benchmarks=made.benchmarks,
    )
    return ExperimentResult(
        header=whole.header,
        claims=evaluate_claims(whole, claims),
        published=tuple(compare_published(whole)),
        summaries={n: inference.summarise(c.run, c.trials) for n, c in whole.workloads.items()},
        is_finished=True,
    )
