"""Command lines without a shell: split as a shell would, or refused where only a shell could."""

import shlex
import subprocess

import pytest
from hypothesis import given, strategies as st

from jissoku.errors import InputError
from jissoku.targets.command import plain_words

WORDS = st.lists(st.text(st.characters(exclude_characters="\0", codec="ascii")), min_size=1)


@given(WORDS)
def test_quoted_words_are_arguments_whatever_is_in_them(words: list[str]) -> None:
    assert plain_words(shlex.join(words), "--build") == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("make release", ["make", "release"]),
        ("sh -c 'a && b'", ["sh", "-c", "a && b"]),
        ('sh -c "a | b; c"', ["sh", "-c", "a | b; c"]),
        (r"echo a\&b \$x", ["echo", "a&b", "$x"]),
        ("cost 5$ {port} *.c #", ["cost", "5$", "{port}", "*.c", "#"]),
        ("", []),
    ],
)
def test_words_are_split_as_by_a_shell(text: str, words: list[str]) -> None:
    assert plain_words(text, "--build") == words


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("true && x", "&&"),
        ("true&&x", "&&"),
        ("a || b", "||"),
        ("a; b", ";"),
        ("a | tee log", "|"),
        ("a >log 2>&1", ">"),
        ("a < b", "<"),
        ("server &", "&"),
        ("(cd a)", "("),
        ("make PREFIX=$HOME", "$H"),
        ('make "PREFIX=${HOME}"', "${"),
        ("echo $(date)", "("),
        ('echo "$(date)"', "$("),
        ("echo `date`", "`"),
        ("echo 'a'\"'\" && 'b'", "&&"),
    ],
)
def test_what_needs_a_shell_is_refused_and_the_message_names_a_command_that_works(
    text: str, operator: str
) -> None:
    with pytest.raises(InputError) as refused:
        plain_words(text, "--build")
    assert f"{operator!r} needs one" in str(refused.value)
    offered = shlex.join(["sh", "-c", text])
    assert offered in str(refused.value)
    assert plain_words(offered, "--build") == ["sh", "-c", text]


@given(st.text(st.sampled_from("ab '\"\\\\&|;$"), max_size=12))
def test_an_accepted_command_has_the_words_that_a_shell_gives_it(text: str) -> None:
    try:
        words = plain_words(text, "--build")
    except InputError:
        return
    if not words or "$" in text:
        return
    script = f"printf '%s\\0' {text}"
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("\0")[:-1] == words
