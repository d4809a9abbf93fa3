"""Help in two sizes: the common options, and all of them, in groups."""

import click
import pytest
from click.testing import CliRunner

from jissoku.cli.commands import LAB_COMMANDS, jissoku
from jissoku.cli.help import Grouped

COMMON_MAX = 15


def grouped() -> list[str]:
    names = [name for commands in LAB_COMMANDS.values() for name in commands]
    context = click.Context(jissoku)
    return [name for name in names if isinstance(jissoku.get_command(context, name), Grouped)]


@pytest.mark.parametrize("name", grouped())
def test_every_option_is_in_one_group_and_few_are_common(name: str) -> None:
    command = jissoku.get_command(click.Context(jissoku), name)
    assert isinstance(command, Grouped)
    listed = [one for common, others in command.groups.values() for one in common + others]
    options = [option.name for option in command.params if isinstance(option, click.Option)]
    assert sorted(listed) == sorted(str(option) for option in options)
    assert 10 <= sum(len(common) for common, _ in command.groups.values()) <= COMMON_MAX


def test_the_long_help_has_what_the_short_one_leaves_out() -> None:
    short = CliRunner().invoke(jissoku, ["compare", "--help"]).output
    long = CliRunner().invoke(jissoku, ["compare", "--help-all"]).output
    assert "--fail-if" in short
    assert "--pipeline" not in short
    assert "--help-all" in short
    assert all(word in long for word in ("--fail-if", "--pipeline", "--check-blocks"))


def test_compare_has_groups() -> None:
    assert "compare" in grouped()


def test_topics_are_short_and_listed() -> None:
    listed = CliRunner().invoke(jissoku, ["help"]).output.splitlines()
    names = [line.split()[0] for line in listed]
    assert {"floor", "load", "interval", "time-slice", "rank", "inconclusive"} <= set(names)
    for name in names:
        lines = CliRunner().invoke(jissoku, ["help", name]).output.splitlines()
        assert 5 <= len(lines) <= 18, name
        assert max(map(len, lines)) <= 110, name
    assert CliRunner().invoke(jissoku, ["help", "time slice"]).output.startswith("Time slice: ")


def test_an_unknown_topic_names_the_nearest() -> None:
    failed = CliRunner().invoke(jissoku, ["help", "flor"])
    assert str(failed.exception) == "no such topic: 'flor'; did you mean floor?"
