"""The kept runs as a table, and which bounds they break."""

from collections.abc import Iterable

from tests.profile_study.checks import Check, Kept

HEAD = "| what | case | runs | as required | found | required |\n|:--|:--|--:|--:|:--|:--|\n"


def text(checks: Iterable[Check], kept: Kept) -> str:
    """A row for each check that was run."""
    lines = [HEAD]
    group = ""
    for check in checks:
        found = kept.of(check)
        if not found:
            continue
        shown = "" if check.group == group else check.group
        group = check.group
        passed = sum(map(check.passed, found)) if check.passed else "-"
        cells = [shown, check.name, str(len(found)), str(passed), check.summary(found), check.bound]
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)


def is_broken(check: Check, kept: Kept) -> bool:
    """Whether a run was not as required, or all runs together are not."""
    found = kept.of(check)
    if not found:
        return False
    return not (all(map(check.passed, found)) if check.passed else check.together(found))
