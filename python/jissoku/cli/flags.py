"""Options that mean the same for several verbs."""

from pathlib import Path

import click

from jissoku.cli.quantity import Field

recipes = click.option(
    "--recipes",
    multiple=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder with recipes of your own.",
)
path = click.option("--path", default="/", show_default=True, help="What is asked, with its query.")
header = click.option("-H", "--header", multiple=True, type=Field(), metavar="'NAME: VALUE'")
keepalive = click.option(
    "--no-keepalive",
    "keepalive",
    flag_value=False,
    default=True,
    help="One connection for each request.",
)
unix = click.option(
    "--unix", is_flag=True, help="Over Unix sockets, for targets that can listen on either."
)
out = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for records and reports.",
)
server_cores = click.option("--server-cores", metavar="LIST", help="As in 0,2-3.")
stopwatch_cores = click.option("--stopwatch-cores", metavar="LIST", help="As in 1.")
quiet = click.option("--quiet", is_flag=True, help="No progress.")
