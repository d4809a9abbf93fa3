"""`jissoku agent`: targets of this host for comparisons whose load comes from another one."""

from pathlib import Path
from typing import Annotated

import click
import msgspec

from jissoku.cli.frame import ExitCode, version_line
from jissoku.fleet.agent import Agent
from jissoku.fleet.campaign_folder import KEPT_DAYS
from jissoku.fleet.campaigns import Campaigns
from jissoku.fleet.keys import AGENT, ListenAddress, default_folder, make_keys, read_keys
from jissoku.fleet.permissions import Permissions, addresses_of, resolved
from jissoku.request.options import option, verb
from jissoku.request.shared import DIRECTORY, Texts
from jissoku.targets import catalogue


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent listens, and what it proves itself with.

    Attributes:
        listen: Address of this host that the load's host can reach, or 127.0.0.1, and a port.
        keys: Folder of the keys. Default: jissoku/fleet in the user's folder of configurations.
        make_keys: Make the keys for this address, valid for seven days, and exit.
        recipes: Folder of recipes that clients may name, too; repeatable.
        allow_url: A server that runs here already, and that clients may observe (their --url);
            repeatable.
        allow_commands: Let clients run any command as this user (--cmd, recipes, experiments and
            configurations of their own, bisect), and not only recipes of this host.
        load_to: Let clients have load sent from this host to that one, which makes it a load host;
            repeatable.
        campaigns: Let clients have whole comparisons run on this host, load included, with their
            records in this folder (their --machine).
        keep: With --campaigns, for how many days a record is kept that its client has copied.
            Others are kept until you remove them.
        also: With --make-keys, a further host whose agent uses the same keys; repeatable.
    """

    listen: Annotated[str, option("--listen", metavar="HOST:PORT")]
    keys: Annotated[Path | None, option("--keys", type=DIRECTORY)] = None
    make_keys: Annotated[bool, option("--make-keys")] = False
    recipes: Annotated[tuple[str, ...], option("--recipes", metavar="DIR")] = ()
    allow_url: Annotated[tuple[str, ...], option("--allow-url", metavar="URL")] = ()
    allow_commands: Annotated[bool, option("--allow-commands")] = False
    load_to: Annotated[Texts, option("--load-to", metavar="HOST")] = ()
    campaigns: Annotated[Path | None, option("--campaigns", type=DIRECTORY)] = None
    keep: Annotated[int, option("--keep", metavar="DAYS", type=click.IntRange(0))] = KEPT_DAYS
    also: Annotated[Texts, option("--also", metavar="HOST")] = ()


@verb(AgentOptions)
def agent(options: AgentOptions) -> int:
    """Start and observe targets on this host, for a load that comes from another one.

    On the other host, `jissoku compare --server-host HOST:PORT` uses it, and so do sweep, run,
    explain, profile, tune and bisect. Copy the folder of keys there first: its owner can start
    every target that `jissoku targets` lists here, as this user, and with --allow-commands any
    program. One client is served at a time; targets end with its connection. Ctrl-C ends the agent.
    With --campaigns, `jissoku compare --machine HOST:PORT` has it run a comparison by itself.

    Exit codes: 0 ended by a signal or keys made, 1 failure, 2 bad input.
    """
    address = ListenAddress.parse(options.listen, "--listen")
    folder = options.keys or default_folder()
    if options.make_keys:
        hosts = (address.host, *options.also)
        make_keys(folder, *hosts)
        click.echo(f"Keys for {', '.join(hosts)}, valid for seven days: {folder}")
        where = "each of these hosts and that of the client" if options.also else "the load's host"
        click.echo(f"Copy the folder to {where}, into the same place or for --server-keys.")
        return ExitCode.OK
    load_to = frozenset(one for host in options.load_to for one in addresses_of(host))
    permissions = Permissions(
        commands=options.allow_commands,
        urls=tuple(map(resolved, options.allow_url)),
        recipes=catalogue.recipes(options.recipes),
        load_to=load_to,
    )
    keys = read_keys(folder, AGENT, address.host)
    campaigns = None
    if options.campaigns is not None:
        campaigns = Campaigns(
            options.campaigns,
            permissions,
            options.recipes,
            keep_days=options.keep,
            note=click.echo,
        )
    serving = Agent(
        address, keys, version_line(), click.echo, permissions=permissions, campaigns=campaigns
    )
    urls = "".join(f" Clients may observe {one.url()}." for one in permissions.urls)
    clients = " Clients may run any command." if options.allow_commands else ""
    loads = f" Load goes to {', '.join(options.load_to)}." if options.load_to else ""
    whole = f" It runs whole comparisons, in {options.campaigns}." if campaigns else ""
    click.echo(f"Listening on {address.text}; Ctrl-C ends it.{clients}{urls}{loads}{whole}")
    serving.run()
    return ExitCode.OK
