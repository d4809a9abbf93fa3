"""From one run's records to its rows in the index of runs, with the request that repeats it."""

import hashlib
import shlex
from collections.abc import Iterator, Sequence
from itertools import combinations

import msgspec

from jissoku.inference.blocks import loads_of, neighbours
from jissoku.inference.compare import comparison_input
from jissoku.inference.summary import summarise
from jissoku.model import Summary, Trial, history, plural, run as model, updated
from jissoku.request import ComparisonRequest
from jissoku.request.options import is_complete

# Part of the index's name: raised when rows are computed differently, so that they are rebuilt.
REVISION = 4


def run_rows(
    key: str, run: model.Run, trials: Sequence[Trial], *, is_sweep: bool = False
) -> history.RunRows:
    """All rows of a run; the trials of a sweep have different loads and no comparisons."""
    summary = None if is_sweep else summarise(run, trials, has_curves=False)
    return history.RunRows(
        runs=(_run_row(key, run, trials, summary),),
        arms=tuple(
            history.ArmRow(
                run=key,
                arm=arm.name,
                target=arm.target,
                version=arm.version,
                origin=arm.origin,
                program=program_key(arm),
                binary_sha256=arm.binary_sha256,
                source_sha256=arm.source_sha256,
                is_floor=arm.name == run.floor,
                is_control=arm.name == run.aa_control,
            )
            for arm in run.arms
        ),
        blocks=() if is_sweep else tuple(_blocks(key, run, tuple(trials))),
        verdicts=tuple(_verdicts(key, summary)) if summary else (),
        standings=tuple(_standings(key, summary)) if summary else (),
        checks=tuple(
            history.CheckRow(
                run=key,
                trial=trial.index,
                arms=", ".join(trial.arms),
                name=check.name,
                outcome=check.outcome,
            )
            for trial in trials
            for check in trial.failed_checks
        ),
    )


def program_key(arm: model.Arm) -> str:
    """Hash of an arm's program, equal in two runs of the same arm. Empty for an external server."""
    program = arm.source_sha256 or arm.binary_sha256
    if not program:
        return ""
    # Older records do not distinguish configurations, but by the arm's name.
    return _hash(program, arm.version, arm.config_sha256 or arm.name, *arm.command)


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _run_row(
    key: str, run: model.Run, trials: Sequence[Trial], summary: Summary | None
) -> history.RunRow:
    machine = run.machine
    cores = f"{machine.cores} {plural(machine.cores, 'core')}"
    of_load, load_text = _load_host(run)
    loads = run.loads if summary is None else loads_of(run, tuple(trials))
    return history.RunRow(
        run=key,
        started_utc=run.started_utc,
        verb=run.verb or ("sweep" if summary is None else "compare"),
        mode=run.mode,
        method=run.method,
        machine=_hash(*_machine_parts(machine), *of_load),
        machine_text=f"{machine.cpu_model}, {cores}, {machine.hypervisor}{load_text}",
        machine_label=run.machine_label,
        boot=run.boot,
        kernel=machine.kernel,
        governor=machine.governor,
        turbo=machine.turbo,
        clocksource=machine.clocksource,
        jissoku=run.jissoku,
        workload=_hash(msgspec.json.encode(updated(run.workload, rate_rps=None)).decode()),
        workload_text=_workload_text(run.workload),
        path=run.workload.path,
        connections=run.workload.connections,
        server_cores=len(run.cores.server),
        generator_cores=len(run.cores.generator),
        shared=run.cores.shared,
        baseline=run.baseline,
        floor=run.floor,
        experiment=run.experiment,
        labels=msgspec.json.encode(run.labels, order="deterministic").decode(),
        blocks_planned=run.blocks_planned,
        blocks=0 if summary is None else summary.blocks,
        trials=len(trials),
        trials_valid=sum(any(map(trial.is_valid_for, trial.arms)) for trial in trials),
        trials_rejected=0 if summary is None else summary.trials_rejected,
        noise_floor=run.noise_floor,
        verdicts=0 if summary is None else sum(one.proven for one in summary.comparisons),
        headline="" if summary is None else summary.headline,
        request=msgspec.json.encode(comparison(run, loads)).decode(),
        condition=neighbours(trials).condition,
    )


def _machine_parts(machine: model.Machine) -> tuple[str, ...]:
    return machine.cpu_model, str(machine.cores), str(machine.smt), machine.hypervisor


def _load_host(run: model.Run) -> tuple[tuple[str, ...], str]:
    """What a load from another host adds to the machine: such runs have a class of their own."""
    load = run.load_host
    if load is None:
        return (), ""
    parts = (*_machine_parts(load.machine), load.path, *filter(None, (load.network,)))
    if load.hosts:
        # How many send together is a part of the load: their streams are no single one.
        hosts = f"{load.hosts} {plural(load.hosts, 'load host')}"
        return (*parts, str(load.hosts)), f", load from {hosts} ({load.path})"
    return parts, f", load from another host ({load.path})"


def _workload_text(workload: model.Workload) -> str:
    connections = f"{workload.connections} {plural(workload.connections, 'connection')}"
    parts = [f"{workload.method} {workload.path}", connections]
    if count := len(workload.raw_requests):
        parts[0] = f"{count} raw {plural(count, 'request')}"
    if workload.websocket:
        parts[0] = f"WebSocket {workload.path}"
    if workload.pipeline > 1:
        parts.append(f"{workload.pipeline} in flight")
    if workload.connection_mode != "keep-alive":
        parts.append("one request per connection")
    if workload.transport != "tcp":
        parts.append("Unix sockets")
    if workload.match != "bytes":
        parts.append(f"matched by {workload.match}")
    if workload.headers:
        parts.append(f"{len(workload.headers)} more header fields")
    if workload.websocket:
        parts.append(f"messages of {len(workload.message)} bytes")
    elif workload.body:
        parts.append(f"body of {len(workload.body)} bytes")
    return ", ".join(parts)


def _blocks(key: str, run: model.Run, trials: tuple[Trial, ...]) -> Iterator[history.BlockRow]:
    """Rows of every pair of valid arms, with floor and A/A control."""
    evidence = comparison_input(run, trials)
    names = sorted(arm.name for arm in run.arms if arm.name not in evidence.excluded_arms)
    for load in evidence.loads:
        for arm, other in combinations(names, 2):
            samples = evidence.cost_ratios(load, arm, other)
            for block, log in sorted(samples.logs.items()):
                yield history.BlockRow(
                    run=key,
                    arm=arm,
                    other=other,
                    rate_rps=load.rate_rps,
                    level=load.level,
                    source=samples.source,
                    block=block,
                    ln_ratio=log,
                )


def _verdicts(key: str, summary: Summary) -> Iterator[history.VerdictRow]:
    for one in (*summary.comparisons, *summary.aa_control):
        ratio = one.ratio
        yield history.VerdictRow(
            run=key,
            arm=one.arm,
            against=one.against,
            metric=one.metric,
            rate_rps=one.load.rate_rps,
            level=one.load.level,
            verdict=one.verdict,
            proven=one.proven,
            ratio=ratio.value if ratio else None,
            low=ratio.low if ratio else None,
            high=ratio.high if ratio else None,
            p_holm=one.p_holm,
            blocks_needed=one.blocks_needed,
            sentence=one.sentence,
        )


def _standings(key: str, summary: Summary) -> Iterator[history.StandingRow]:
    for known in summary.arm_summaries:
        for point in known.points:
            multiple = point.relative_cost
            latency = {one.label: one.median_ns for one in point.percentiles}
            yield history.StandingRow(
                run=key,
                arm=known.arm.name,
                rate_rps=point.load.rate_rps,
                level=point.load.level,
                status=known.status,
                rank=point.rank,
                cost_ns=point.cost_ns.value if point.cost_ns else None,
                multiple=multiple.value if multiple else None,
                multiple_low=multiple.low if multiple else None,
                multiple_high=multiple.high if multiple else None,
                p50_ns=latency.get("p50"),
                p99_ns=latency.get("p99"),
                closed_loop_rps=known.rate_rps.value if known.rate_rps else None,
                capacity_rps=known.capacity_rps.value if known.capacity_rps else None,
                rss_bytes=known.rss_bytes,
            )


# Characters of a request body that a command contains.
BODY_MAX = 200


def comparison(run: model.Run, loads: Sequence[model.Load]) -> ComparisonRequest:
    """The recorded request; of older runs, and of other commands', what the header says of it.

    `loads` are those with trials, which older headers do not have. COMMAND, URL and FILE stand for
    what a header does not have.
    """
    if isinstance(run.request, ComparisonRequest):
        return run.request
    arms = [arm for arm in run.arms if arm.name not in {run.floor, run.aa_control}]
    words = {
        origin: tuple(_word(arm) for arm in arms if arm.origin is origin) for origin in model.Origin
    }
    workload = run.workload
    return ComparisonRequest(
        arms=words[model.Origin.RECIPE],
        cmd=words[model.Origin.COMMAND],
        url=words[model.Origin.URL],
        quick=run.mode is model.Mode.QUICK,
        path=workload.path,
        method=workload.method,
        header=workload.headers,
        body=_body(workload),
        raw=("FILE",) * len(workload.raw_requests),
        websocket=workload.websocket,
        connections=workload.connections,
        rate=workload.rate_rps,
        # A pipeline is a closed loop.
        closed_loop=tuple(loads) == (model.FULL_LOAD,) and workload.pipeline == 1,
        pipeline=workload.pipeline,
        keepalive=workload.connection_mode is not model.ConnectionMode.CLOSE,
        unix=workload.transport is model.Transport.UNIX,
    )


def _word(arm: model.Arm) -> str:
    if arm.origin is model.Origin.RECIPE:
        return arm.name if arm.name == arm.target else f"{arm.name}={arm.target}"
    if arm.origin is model.Origin.URL:
        return f"{arm.name}=URL"
    command = shlex.join(arm.command)
    is_known = command and is_complete(ComparisonRequest(cmd=(command,)))
    return f"{arm.name}={command if is_known else 'COMMAND'}"


def _body(workload: model.Workload) -> str | None:
    if not workload.body:
        return None
    try:
        text = workload.body.decode()
    except UnicodeDecodeError:
        return "@FILE"
    is_short = len(text) <= BODY_MAX and text.isprintable() and not text.startswith("@")
    return text if is_short else "@FILE"
