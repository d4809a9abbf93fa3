"""The method of a run, in a few sentences from its header."""

from jissoku.model import ConnectionMode, Match, Run, SweepSummary, Transport
from jissoku.model.summary import CrossCheckName, Summary
from jissoku.model.wording import join_names, plural, trials_count
from jissoku.report import format as fmt
from jissoku.report.tables import WARNING
from jissoku.request import command_line

MATCHES = {
    Match.JSON: "status, and before each trial by the keys and types of their JSON",
    Match.LENGTH: "status and length",
    Match.STATUS: "status alone",
}


def describe_load(run: Run) -> str:
    work = run.workload
    what = f"{'WebSocket' if work.websocket else work.method} {work.path}"
    if shapes := work.raw_requests:
        what += f" in {len(shapes)} shapes ({', '.join(shape.name for shape in shapes)})"
    is_kept = work.connection_mode is ConnectionMode.KEEP_ALIVE
    parts = [
        what,
        f"{work.connections} {plural(work.connections, 'connection')} per target",
        "keep-alive" if is_kept else "one connection per request",
    ]
    if work.pipeline > 1:
        parts.append(f"{work.pipeline} requests in flight on each")
    if work.transport is Transport.UNIX:
        parts.append("over Unix sockets")
    if work.match is not Match.BYTES:
        parts.append(f"responses matched by {MATCHES[work.match]}")
    if work.websocket:
        parts.append(f"messages of {len(work.message):,} bytes, each sent back")
    elif work.body:
        parts.append(f"a body of {len(work.body):,} bytes")
    return ", ".join(parts)


def describe_method(summary: Summary) -> tuple[str, ...]:
    """Paragraphs about the pairing of arms, loads, cross-checks, and the meaning of proven."""
    run, loads = summary.run, join_names([load.text for load in summary.loads])
    other = "another slice length"
    if run.check_slice_ns is not None:
        other = f"slices of {fmt.duration_mark(run.check_slice_ns)}"
    ways = {
        CrossCheckName.OTHER_SLICE: f"with {other}",
        CrossCheckName.ALONE: "with each target alone",
        CrossCheckName.TIME_SLICED: "in time slices",
    }
    made = {check.name for c in summary.comparisons for check in c.cross_checks}
    whole = fmt.filled(
        "method.txt.j2",
        run=run,
        slices="" if run.slice_ns is None else f" of {fmt.duration_mark(run.slice_ns)}",
        blocks=f"{summary.blocks} {plural(summary.blocks, 'block')}",
        loads=loads and f"{plural(len(summary.loads), 'Load')}: {loads}",
        is_on_grid=any(map(fmt.level_name, summary.loads)),
        checked=join_names([text for name, text in ways.items() if name in made]),
        sign=WARNING,
        effect=f"{100 * run.minimum_effect:g}",
        noise=f"{100 * (run.noise_floor or 0.0):.2g}",
        has_rates=any(known.rate_rps for known in summary.arm_summaries),
    )
    return tuple(" ".join(part.split()) for part in whole.split("\n\n") if part.strip())


def machine(run: Run) -> tuple[tuple[str, str], ...]:
    """The machine, as (name, value), without unknown values."""
    host = run.machine
    smt = {None: "", True: ", two threads per core", False: ", one thread per core"}[host.smt]
    generator = ", ".join(map(str, run.cores.generator))
    cores = f"servers {', '.join(map(str, run.cores.server))}; load generator {generator}"
    facts = (
        ("Processor", f"{host.cpu_model}, {host.cores} {plural(host.cores, 'core')}{smt}"),
        ("Cores used", f"{cores}{' (shared)' if run.cores.shared else ''}"),
        ("Load from", _load_host(run)),
        ("Memory", fmt.size(host.memory_bytes)),
        ("Kernel", host.kernel),
        ("Hypervisor", host.hypervisor),
        ("Governor", host.governor),
        ("Turbo", host.turbo),
        ("Clock source", host.clocksource),
        ("Python", host.python),
        ("jissoku", run.jissoku),
        ("Mode, seed", f"{run.mode}, {run.seed}"),
        ("Started", run.started_utc),
        ("Repeat with", command_line(run.request) if run.request else ""),
    )
    return tuple((name, value) for name, value in facts if value)


def _load_host(run: Run) -> str:
    """The host of the load generator, if it is another one than that of the targets."""
    load = run.load_host
    if load is None:
        return ""
    over = {"loopback": "the loopback interface", "virtual": "a virtual interface"}
    there = "this host" if load.path == "loopback" else f"another host ({load.machine.cpu_model})"
    if load.hosts:
        hosts = f"{load.hosts} {plural(load.hosts, 'load host')}"
        there = f"{hosts}, the first with {load.machine.cpu_model}"
    network = f" with an emulated network ({load.network})" if load.network else ""
    return (
        f"{there}, over {over.get(load.path, 'a network')}{network};"
        f" shortest round trip {fmt.duration_mark(load.round_trip_ns)}"
    )


def trials(summary: Summary) -> str:
    lost = summary.trials_total - summary.trials_valid - summary.trials_rejected
    return counted_trials(summary) + (f", {lost} failed or invalid" if lost else "")


def counted_trials(summary: Summary | SweepSummary) -> str:
    text = trials_count(summary.trials_valid, summary.trials_total)
    return text + (f", {summary.trials_rejected} rejected" if summary.trials_rejected else "")
