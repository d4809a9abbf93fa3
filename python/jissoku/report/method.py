"""How a run was measured, in a few sentences made from its header."""

from jissoku.model import Reuse, Run, Summary, Transport
from jissoku.report import format as fmt


def asked(run: Run) -> str:
    """The workload in one line."""
    work = run.workload
    what = f"{work.method} {work.path}"
    if work.shapes:
        what += f" in {len(work.shapes)} shapes ({', '.join(s.name for s in work.shapes)})"
    parts = [what, f"{work.connections} connections per target"]
    parts.append("keep-alive" if work.reuse is Reuse.KEEP_ALIVE else "one connection per request")
    if work.pipeline > 1:
        parts.append(f"{work.pipeline} requests in flight on each")
    if work.transport is Transport.UNIX:
        parts.append("over Unix sockets")
    if work.body:
        parts.append(f"a body of {len(work.body):,} bytes")
    return ", ".join(parts)


def measured(summary: Summary) -> tuple[str, ...]:
    """Paragraphs."""
    run = summary.run
    effect = f"{100 * run.minimum_effect:g} %"
    count = len(summary.comparisons)
    family = (
        f" also when it is widened for all {count} comparisons (Bonferroni)" if count > 1 else ""
    )
    cost = (
        "Cost is the CPU time of all of a target's processes per verified answer. Two targets run"
        " in the same moments at one common rate (a duet), so what the machine does to one it does"
        f" to the other; each block brings one ratio. {summary.blocks} blocks were measured in"
        f" random order (seed {run.seed}), every trial with fresh processes."
    )
    proof = (
        "Intervals are 95 % by Student's t on the logarithms of the blocks' ratios. A verdict"
        " needs six blocks, and a Hodges-Lehmann interval that agrees. Differences under"
        f" {effect} count as practically equal; proven means that the interval excludes 1{family}."
    )
    solo = (
        "Rates, latency and memory come from trials with one target alone. A closed-loop rate"
        " says something about a server only where it is stamped server-bound: its cores were at"
        " least 95 % busy, and no thread of the stopwatch 90 %. Latency counts from the moment at"
        " which a request was due."
    )
    return cost, proof, solo


def machine(run: Run) -> tuple[tuple[str, str], ...]:
    """What it ran on, as (name, value); unknown things are left out."""
    host = run.machine
    smt = {None: "", True: ", two threads per core", False: ", one thread per core"}[host.smt]
    stopwatch = ", ".join(map(str, run.cores.stopwatch))
    cores = f"servers {', '.join(map(str, run.cores.server))}; stopwatch {stopwatch}"
    facts = (
        ("Processor", f"{host.cpu_model}, {host.cores} cores{smt}"),
        ("Cores used", f"{cores}{' (shared)' if run.cores.shared else ''}"),
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
    )
    return tuple((name, value) for name, value in facts if value)


def trials(summary: Summary) -> str:
    """How many trials there were and what became of them."""
    lost = summary.trials_total - summary.trials_counted - summary.trials_rejected
    text = f"{summary.trials_counted} of {summary.trials_total} trials count"
    if summary.trials_rejected:
        text += f", {summary.trials_rejected} disturbed by the machine"
    return text + (f", {lost} failed or invalid" if lost else "")
