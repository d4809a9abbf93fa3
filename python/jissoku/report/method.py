"""The method of a run, in a few sentences from its header."""

from collections.abc import Iterator

from jissoku.model import (
    ConnectionMode,
    CrossCheckName,
    Match,
    Method,
    Run,
    Summary,
    SweepSummary,
    Transport,
)
from jissoku.model.wording import join_names, plural, trials_count
from jissoku.report import format as fmt
from jissoku.report.tables import WARNING
from jissoku.request import command_line

METHOD_TEXTS = {
    Method.TIME_SLICED: (
        "All targets of a trial run on the same cores. The load generator sends requests to one of"
        " them at a time, evenly spaced, in time slices{slices} in balanced order (A B B A); a"
        " slice ends when its last response has arrived. CPU time is that of all of a target's"
        " processes over the whole window: background work during the slices of other targets is"
        " included, and its share is in the tables."
    ),
    Method.PAIRED: (
        "Targets are measured in pairs that run at the same time, on the same cores and at the same"
        " rate (paired trials, after Bulej et al., ICPE 2020); each pair and block gives one ratio"
        " of the CPU time of all of a target's processes."
    ),
    Method.SINGLE: (
        "Each target is measured alone, at the same rates, in random order. CPU time is that of all"
        " of a target's processes over the whole window."
    ),
}


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
    parts = (_method, _loads, _checks, _noise_floor, _single_target)
    return tuple(text for part in parts if (text := " ".join(part(summary))))


def _method(summary: Summary) -> Iterator[str]:
    run = summary.run
    yield f"Method: {run.method}{f' ({run.method_reason})' if run.method_reason else ''}."
    slices = "" if run.slice_ns is None else f" of {fmt.duration_mark(run.slice_ns)}"
    yield METHOD_TEXTS[run.method].format(slices=slices)
    count = f"{summary.blocks} {plural(summary.blocks, 'block')}"
    yield f"{count} in random order (seed {run.seed}); each starts the targets anew."


def _loads(summary: Summary) -> Iterator[str]:
    if not summary.loads:
        return
    listing = join_names([load.text for load in summary.loads])
    yield f"{plural(len(summary.loads), 'Load')}: {listing} on the server's cores."
    if any(map(fmt.level_name, summary.loads)):
        yield (
            "Rates come from one fixed grid (1, 2 and 5 times powers of ten), the same in every"
            " run; targets are compared at a load only where both reach it."
        )


def _checks(summary: Summary) -> Iterator[str]:
    made = {check.name for c in summary.comparisons for check in c.cross_checks}
    ways = {
        CrossCheckName.OTHER_SLICE: "with another slice length",
        CrossCheckName.ALONE: "with each target alone",
        CrossCheckName.TIME_SLICED: "in time slices",
    }
    other = summary.run.check_slice_ns
    if other is not None:
        ways[CrossCheckName.OTHER_SLICE] = f"with slices of {fmt.duration_mark(other)}"
    named = [text for name, text in ways.items() if name in made]
    if named:
        yield (
            f"Ratios of CPU per request are checked by some blocks {join_names(named)}; where a"
            f" check disagrees, both figures are shown and marked with {WARNING}."
        )


def _noise_floor(summary: Summary) -> Iterator[str]:
    run = summary.run
    yield (
        "Intervals are 95 % by Student's t on the logarithms of the blocks' ratios; ratios within"
        f" {100 * run.minimum_effect:g} % of 1 count as practically equal. Proven means: the"
        " verdict is a difference, its p-value after Holm's correction over all comparisons of the"
        " run by the same metric is at most 0.05, and no check contradicts its direction."
    )
    if run.noise_floor is not None:
        yield (
            "On this machine the ratio of equal targets lies within"
            f" {100 * run.noise_floor:.2g} % of 1 in 95 of 100 runs (jissoku self-test)."
        )


def _single_target(summary: Summary) -> Iterator[str]:
    yield "Latency counts from the time at which a request was due."
    if summary.run.objective:
        yield (
            f"Capacity is the highest rate that met {summary.run.objective}, found by search in"
            " single-target trials."
        )
    if any(known.rate_rps for known in summary.arm_summaries):
        yield (
            "Closed-loop rates and memory come from single-target trials. A rate says something"
            " about a server only where it is marked server-bound: its cores were at least 95 %"
            " busy, and no thread of the load generator 90 %."
        )


def machine(run: Run) -> tuple[tuple[str, str], ...]:
    """The machine, as (name, value), without unknown values."""
    host = run.machine
    smt = {None: "", True: ", two threads per core", False: ", one thread per core"}[host.smt]
    generator = ", ".join(map(str, run.cores.generator))
    cores = f"servers {', '.join(map(str, run.cores.server))}; load generator {generator}"
    facts = (
        ("Processor", f"{host.cpu_model}, {host.cores} {plural(host.cores, 'core')}{smt}"),
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
        ("Repeat with", command_line(run.request) if run.request else ""),
    )
    return tuple((name, value) for name, value in facts if value)


def trials(summary: Summary) -> str:
    lost = summary.trials_total - summary.trials_valid - summary.trials_rejected
    return counted_trials(summary) + (f", {lost} failed or invalid" if lost else "")


def counted_trials(summary: Summary | SweepSummary) -> str:
    text = trials_count(summary.trials_valid, summary.trials_total)
    return text + (f", {summary.trials_rejected} rejected" if summary.trials_rejected else "")
