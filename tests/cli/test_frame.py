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
        ("\n", "\n"),
        ("", ""),
    ],
)
def test_a_terminal_cuts_no_word(line: str, shown: str) -> None:
    assert fitted(line, 20) == shown
    assert fitted(f"x\n{line}", 20) == f"x\n{shown}"


def test_a_diff_can_be_applied_as_it_is_printed() -> None:
    diff = "--- a\n+++ b\n@@ -1,2 +1,2 @@\n     log_format plain '$remote_addr';\n-x 1;\n+x 2;\n"
    assert fitted(f"{diff}\nand more words here too\n", 20).startswith(
        f"{diff}\nand more words here\n"
    )
