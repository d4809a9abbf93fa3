"""`jissoku help`: what the words of a report mean."""

import difflib
import tomllib
from importlib import resources

import click

from jissoku.cli.frame import ExitCode
from jissoku.errors import InputError


@click.command("help")
@click.argument("topic", required=False)
def help(topic: str | None) -> int:  # noqa: A001 - named as its command
    """Explain a word of the reports, such as floor or inconclusive; without TOPIC, list them.

    Options of a command are in its own help: `jissoku compare --help`.
    """
    topics = tomllib.loads(
        resources.files("jissoku.cli").joinpath("topics.toml").read_text(encoding="utf-8")
    )
    if topic is None:
        width = max(map(len, topics))
        for name, found in topics.items():
            click.echo(f"  {name.ljust(width)}  {found['title']}")
        return ExitCode.OK
    name = topic.lower().replace(" ", "-").replace("_", "-")
    if name not in topics:
        near = difflib.get_close_matches(name, topics, n=1)
        instead = f"did you mean {near[0]}?" if near else "there are " + ", ".join(topics)
        raise InputError(f"no such topic: {topic!r}; {instead}")
    click.echo(f"{topics[name]['title']}\n\n{topics[name]['text'].strip()}")
    return ExitCode.OK
