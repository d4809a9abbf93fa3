import pytest

from jissoku.inference.expression import GrammarError, Quantity, parse, quantity


def test_a_ratio_is_held_against_a_bound() -> None:
    (link,) = parse("cost(nginx+all@file) / cost(in-memory) < 0.9")
    assert link.above == (Quantity("cost", "nginx+all", "file"),)
    assert link.below == (Quantity("cost", "in-memory"),)
    assert (link.relation, link.bound) == ("<", 0.9)


def test_a_chain_is_an_order() -> None:
    links = parse("rate(one) < rate(two) < rate(three)")
    assert [[q.arm for q in link.above] for link in links] == [["one"], ["two"]]
    assert [[q.arm for q in link.below] for link in links] == [["two"], ["three"]]


def test_numbers_are_multiplied_into_the_bound() -> None:
    (link,) = parse("2 * rate(a) > 0.98 * 10_000")
    assert link.bound == pytest.approx(4900)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is incomplete: write for example"),
        ("cost(a)", "compares nothing"),
        ("cost(a) <", "is incomplete"),
        ("cost(a) cost(b) < 1", "cannot be read from 'cost(b) < 1' on"),
        ("cost(a) / / cost(b) < 1", "cannot be read from '/ cost(b) < 1' on"),
        ("speed(a) < 1", "'speed' is not a metric; there are cost, rate"),
        ("cost.openat(a) < 1", "is not a metric"),
        ("cost(a) <> 1", "cannot be read from '> 1' on"),
        ("cost(a < 1", "cannot be read from '(a < 1' on"),
        ("1 < 2", "numbers only"),
        ("cost < 1", "needs a target"),
        ("cost(a) + cost(b) < 1", "products only"),
        ("sqrt(2) < cost(a)", "products only"),
        ("-1 * cost(a) < 1", "above 0"),
        ("cost(a) / 0 < 1", "divided by 0"),
        ("cost(a) < 0", "above 0"),
        ("cost(a) = 1", "no measured value equals"),
        ("errors(a) / errors(b) < 1", "is a count"),
        ("errors(a) * cost(b) < 1", "is a count"),
        ("benchmark(a) < 1", "is not a metric"),
        ("benchmark.x(a@b) < 1", "does not belong to a workload"),
        ("calls(a) * benchmark.x(a) = 1", "no measured value equals"),
        ("0 = errors(a)", "write the count first"),
    ],
)
def test_what_cannot_be_tested_is_refused(text: str, why: str) -> None:
    with pytest.raises(GrammarError) as refused:
        parse(text)
    assert why in str(refused.value)


def test_parentheses_divide_by_what_they_contain() -> None:
    assert parse("cost(a) / (2 * rate(b) / rate(c)) < 1") == parse(
        "cost(a) / 2 / rate(b) * rate(c) < 1"
    )


def test_a_quantity_stands_alone() -> None:
    assert quantity("calls.openat(a@w)") == Quantity("calls.openat", "a", "w")
    with pytest.raises(GrammarError, match="is not a quantity"):
        quantity("cost(a) < 1")
