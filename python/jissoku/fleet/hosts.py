"""The hosts of a fleet from the client's end: begun over ssh, then reached as any agent is."""

import json
import secrets
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from jissoku.errors import InputError, JissokuError
from jissoku.fleet import over_ssh
from jissoku.fleet.campaign_agent import CampaignAgent
from jissoku.fleet.campaign_wire import CAMPAIGNS, AskCampaign, CampaignId
from jissoku.fleet.clock import ClockBound
from jissoku.fleet.connecting import AgentBusy, session
from jissoku.fleet.fleet_file import Fleet, FleetFile, Host, check_name, read_fleet
from jissoku.fleet.keys import CLIENT, ListenAddress, keys_of_host, make_keys, read_keys
from jissoku.fleet.path import PROBES, PathSeen
from jissoku.fleet.ssh import Ssh, on_all
from jissoku.measure.machine import HealthCheck, State
from jissoku.model import Machine
from jissoku.model.wording import short_time
from jissoku.records import files

# What an agent runs that has not been asked to.
NO_CAMPAIGN_MACHINE = 1

Result = TypeVar("Result")

# Receives what comes of each host.
Each = Callable[[Host, Result | JissokuError], object]


def init(names: Sequence[str], file: Path, ssh: str, program: str, version: str) -> Fleet:
    """Writes the file of a new fleet, and makes its keys; without names, keys for a file's hosts.

    `ssh` has the words that begin each call of it, `program` is jissoku on the hosts. Nothing is
    overwritten. InputError or JissokuError, with a line for each host that refuses, if nothing can
    be written.
    """
    if not names:
        fleet = read_fleet(file)
        _make_keys(fleet.keys, fleet.hosts)
        return fleet
    for name in names:
        check_name(name)
    keys = file.parent / FleetFile(host=()).keys
    for path in (file, keys):
        if path.exists():
            raise InputError(
                f"{path} is there, and not overwritten; without names, `jissoku fleet init` makes"
                " keys for the hosts of a file"
            )
    found = _looked(names, ssh, program, version)
    hosts = _with_addresses(found, program)
    _make_keys(keys, hosts)
    with files.writing(file), file.open("x", encoding="utf-8") as written:
        written.write(fleet_text(hosts, ssh, found))
    return read_fleet(file)


def _make_keys(folder: Path, hosts: Sequence[Host]) -> None:
    addresses = dict.fromkeys(host.listen().host for host in hosts)
    make_keys(folder, *addresses, is_shared=False)


def _looked(
    names: Sequence[str], words: str, program: str, version: str
) -> Mapping[str, over_ssh.Looked]:
    ssh = Ssh(shlex.split(words), version)
    hosts = [Host(name=name, address="", program=program) for name in dict.fromkeys(names)]
    found: dict[str, over_ssh.Looked] = {}
    refused: dict[str, JissokuError] = {}

    def note(host: Host, result: over_ssh.Looked | JissokuError) -> None:
        if isinstance(result, JissokuError):
            refused[host.name] = result
        else:
            found[host.name] = result

    question = over_ssh.Look(ports=len(hosts))
    on_all(hosts, lambda host: ssh.ask(host, question, over_ssh.Looked), note, ssh.close)
    if refused:
        is_input = all(isinstance(error, InputError) for error in refused.values())
        lines = [f"{host.name}: {refused[host.name]}" for host in hosts if host.name in refused]
        raise (InputError if is_input else JissokuError)("\n".join(lines))
    return {host.name: found[host.name] for host in hosts}


def _with_addresses(found: Mapping[str, over_ssh.Looked], program: str) -> list[Host]:
    """Hosts that ssh reaches at one address, as behind a forwarded port, have different ports."""
    taken: dict[str, set[int]] = defaultdict(set)
    hosts = []
    for name, looked in found.items():
        used = taken[looked.address]
        port = next((one for one in looked.ports if one not in used), None)
        if port is None:
            raise JissokuError(f"{name}: has no free port from {over_ssh.PORT_FIRST} on")
        used.add(port)
        address = ListenAddress(looked.address, port).text
        # An address with a zone, as fe80::1%eth0, is not one of the host alone.
        ListenAddress.parse(address, f"{name} is reached at")
        hosts.append(Host(name=name, address=address, program=program))
    return hosts


def fleet_text(hosts: Sequence[Host], ssh: str, found: Mapping[str, over_ssh.Looked]) -> str:
    lines = [f"ssh = {_quoted(ssh)}", ""] if ssh != FleetFile(host=()).ssh else []
    for host in hosts:
        machine = found[host.name].machine
        model = "".join(filter(str.isprintable, machine.cpu_model))
        lines += [f"# {machine.cores} cores, {model}", "[[host]]"]
        values = {"name": host.name, "address": host.address, "program": host.program}
        lines += [f"{key} = {_quoted(value)}" for key, value in values.items() if value] + [""]
    return "\n".join(lines[:-1]) + "\n"


def _quoted(text: str) -> str:
    """As a basic string of TOML."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def up(fleet: Fleet, version: str, each: Each[str]) -> None:
    """Starts the agents that do not run, and sees that each answers; InputError for unfit keys."""
    client = read_keys(fleet.keys, CLIENT)
    questions = {
        host.name: over_ssh.StartAgent(
            version=version,
            address=host.address,
            keys=keys_of_host(fleet.keys, host.listen().host),
            options=(
                *(word for to in fleet.load_to(host) for word in ("--load-to", to)),
                *host.options(),
            ),
        )
        for host in fleet.hosts
    }
    ssh = Ssh(fleet.ssh, version)

    def start(host: Host) -> str:
        limit_s = 2 * over_ssh.START_LIMIT_S
        started = ssh.ask(host, questions[host.name], over_ssh.StartedAgent, limit_s)
        try:
            with session(host.listen(), client, version, CampaignAgent, CAMPAIGNS):
                pass
        except AgentBusy:
            pass  # It serves a client.
        except JissokuError as error:
            reason = str(error).partition(";")[0]
            raise type(error)(
                f"process {started.pid} is its agent, and {reason}; let this host connect to"
                f" {host.address}, or see {started.log} there"
            ) from error
        state = "runs" if started.is_new else "runs already"
        output = f"; its output: {started.log}" if started.is_new else ""
        return f"{state} on {host.address}, process {started.pid}{output}"

    on_all(fleet.hosts, start, each, ssh.close)


def down(fleet: Fleet, version: str, each: Each[str]) -> None:
    """Ends the agents that `up` has started, with what they run, and says what they leave."""
    ssh = Ssh(fleet.ssh, version)

    def stop(host: Host) -> str:
        question = over_ssh.StopAgent(address=host.address)
        found = ssh.ask(host, question, over_ssh.StoppedAgent, over_ssh.STOP_LIMIT_S + 30)
        state = f"ended, process {found.pid}" if found.pid else "no agent of this fleet ran"
        records = f"the records of {found.campaigns} comparisons and its output"
        left = f"; left there: {records} in {found.folder}" if found.campaigns else ""
        return f"{state}{left}"

    on_all(fleet.hosts, stop, each, ssh.close)


@dataclass(frozen=True, slots=True)
class HostState:
    """What an agent says of its host; `busy` is empty if nothing measures there."""

    machine: Machine
    clock: ClockBound
    busy: str


def findings(
    fleet: Fleet, states: Mapping[str, HostState], found: Mapping[str, over_ssh.Examined]
) -> dict[HealthCheck, list[str]]:
    """What would spoil a measurement, and the paths; each with the names of its hosts.

    `states` and `found` have what is known of hosts, by their names.
    """
    rows: dict[HealthCheck, list[str]] = defaultdict(list)
    found = {host.name: found[host.name] for host in fleet.hosts if host.name in found}
    for host in fleet.hosts:
        times = []
        if host.name in states:
            times.append(f"from here {short_time(states[host.name].clock.round_trip_ns)}")
        if host.name in found:
            examined = found[host.name]
            same = [name for name, one in found.items() if one.boot == examined.boot != ""]
            for check in (*examined.checks, *_same_machine(same)):
                rows[check].append(host.name)
            for other in fleet.hosts:
                if path := examined.paths.get(other.address):
                    if path.floor_ns is not None:
                        times.append(f"to {other.name} {short_time(path.floor_ns)}")
                    for check in _path_checks(other, path):
                        rows[check].append(host.name)
        if times:
            check = HealthCheck("shortest round trips", State.FINE, ", ".join(times))
            rows[check].append(host.name)
    return rows


def _same_machine(names: Sequence[str]) -> Iterator[HealthCheck]:
    if len(names) > 1:
        advice = "they measure one after the other; a verdict about machines needs several"
        yield HealthCheck("machine", State.WARN, f"one has {', '.join(names)}", advice)


def _path_checks(other: Host, path: PathSeen) -> Iterator[HealthCheck]:
    name = f"path to {other.name}"
    if path.failure:
        advice = f"let it connect to {other.address}, and start what listens: `jissoku fleet up`"
        yield HealthCheck(name, State.BAD, path.failure, advice)
    elif path.lost:
        seen = f"{path.lost} of {PROBES} handshakes were not answered within a second"
        yield HealthCheck(name, State.WARN, seen, "a path that loses packets rejects trials")


def examine(fleet: Fleet, version: str, each: Each[over_ssh.Examined]) -> None:
    """Has each host look for what disturbs measurements, and try the paths to all others."""
    ssh = Ssh(fleet.ssh, version)

    def asked(host: Host) -> over_ssh.Examined:
        others = tuple(one.address for one in fleet.hosts if one is not host)
        return ssh.ask(host, over_ssh.Examine(addresses=others), over_ssh.Examined)

    on_all(fleet.hosts, asked, each, ssh.close)


def look(fleet: Fleet, version: str, each: Each[HostState]) -> None:
    """Asks all agents, without ssh; one that has another version is an error of its host."""
    client = read_keys(fleet.keys, CLIENT)

    def asked(host: Host) -> HostState:
        with session(host.listen(), client, version, CampaignAgent, CAMPAIGNS) as link:
            nothing = CampaignId(run=secrets.token_hex(8), machine=NO_CAMPAIGN_MACHINE)
            busy = link.part(AskCampaign(id=nothing)).busy.partition(":")[0]
            return HostState(link.machine(), link.clock(), busy)

    on_all(fleet.hosts, asked, each, lambda: None)
