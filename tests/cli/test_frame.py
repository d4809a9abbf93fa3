"""What the frame of all commands prints."""

import pytest

from jissoku.cli.frame import fitted


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("a short line\n", "a short line\n"),
        ("exactly twenty wide.\n", "exactly twenty wide.\n"),
        ("  evidence: of a longer line\n", "  evidence: of a\n    longer line\n"),
        ("/a/path/that/is/longer/than/that", "/a/path/that/is/longer/than/that"),
        ("+    keepalive_timeout 65s; # added\n", "+    keepalive_timeout 65s; # added\n"),
        ("\n", "\n"),
        ("", ""),
    ],
)
def test_a_terminal_cuts_no_word(line: str, shown: str) -> None:
    assert fitted(line, 20) == shown
    assert fitted(f"x\n{line}", 20) == f"x\n{shown}"
