"""Sentences agree with their numbers."""

from jissoku.model.wording import plural, times, too_few_blocks, trials_count


def test_nouns_and_verbs_agree_with_their_number() -> None:
    assert [plural(number, "trial") for number in (0, 1, 2)] == ["trials", "trial", "trials"]
    assert [plural(number, "was", "were") for number in (0, 1, 2)] == ["were", "was", "were"]
    assert [times(number) for number in (0, 1, 2)] == ["0 times", "once", "2 times"]


def test_sentences_agree_with_their_numbers() -> None:
    counts = [trials_count(valid, total) for valid, total in ((0, 1), (1, 1), (1, 53), (52, 53))]
    assert counts == [
        "0 of 1 trial count",
        "1 of 1 trial counts",
        "1 of 53 trials counts",
        "52 of 53 trials count",
    ]
    assert [too_few_blocks(number) for number in (1, 2)] == [
        "1 block is too few",
        "2 blocks are too few",
    ]
