"""Nouns and verbs that agree with a number, for all sentences with one."""


def plural(number: int, one: str, several: str = "") -> str:
    """`one` for 1, and for any other number `several`, by default `one` with an s."""
    return one if number == 1 else several or f"{one}s"


def times(number: int) -> str:
    """How often."""
    return plural(number, "once", f"{number} times")


def trials_count(valid: int, total: int) -> str:
    """How many trials give results."""
    return f"{valid} of {total} {plural(total, 'trial')} {plural(valid, 'counts', 'count')}"


def too_few_blocks(number: int) -> str:
    """The beginning of a sentence about the blocks that would be needed."""
    return f"{number} {plural(number, 'block is', 'blocks are')} too few"
