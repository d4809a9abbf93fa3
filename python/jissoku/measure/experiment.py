"""An experiment: prepares its targets, runs a campaign per workload, and evaluates the claims.

File -> arms -> prepared arms and benchmarks -> requirements of workloads -> plans that fit into the
mode's minutes -> header -> benchmarks -> one campaign after the other, each in a folder inside the
experiment's, and the counters of claims -> (a reader turns the records into results).
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jissoku import inference, records
from jissoku.design import sampling_plan, variants
from jissoku.design.sampling_plan import SamplingPlan, WorkloadRequirements
from jissoku.errors import InputError, TargetError
from jissoku.inference.claims import ClaimData, WorkloadTrials, compare_published, evaluate_claims
from jissoku.inference.expression import quantity
from jissoku.inference.latency import FRACTIONS
from jissoku.measure import counting
from jissoku.measure.compare import compare
from jissoku.measure.comparison import CompareConfig
from jissoku.measure.host import LocalHost, ServerHost
from jissoku.measure.machine import now_utc
from jissoku.measure.microbenchmark import BenchmarkRound
from jissoku.measure.progress import ProgressListener
from jissoku.measure.selection import workload
from jissoku.measure.trial import PreparedArm
from jissoku.model import (
    CoreAssignment,
    CounterReadings,
    Method,
    Mode,
    Recipe,
    UnavailableTarget,
    updated,
)
from jissoku.model.experiment import (
    BenchmarkOutput,
    Experiment,
    ExperimentHeader,
    ExperimentResult,
    TargetSpec,
    WorkloadSpec,
)
from jissoku.records import run_folder as folders
from jissoku.request import ExperimentRequest
from jissoku.system.cores import available_cores
from jissoku.targets.contract import capability
from jissoku.targets.prepare import PreparedTarget

# Metrics for which arms are measured in the same trials.
COMPARED_METRICS = frozenset({"cost", *FRACTIONS})


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentConfig:
    """What an experiment is configured by; `host` is where its targets run."""

    experiment: Experiment
    recipes: Mapping[str, Recipe]
    mode: Mode
    seed: int
    cores: CoreAssignment
    folder: Path
    version: str
    noise_floors: Mapping[Method, float] = field(default_factory=dict)
    request: ExperimentRequest | None = None
    host: ServerHost = field(default_factory=LocalHost)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentPlan:
    """`rounds` run a round of each benchmark, or say why it cannot be run."""

    config: ExperimentConfig
    header: ExperimentHeader
    comparisons: tuple[CompareConfig, ...]
    rounds: Mapping[str, BenchmarkRound | str]


def plan(config: ExperimentConfig, listener: ProgressListener) -> ExperimentPlan:
    """Prepares all that is measured; InputError: the host of the targets refuses a part of it."""
    experiment = config.experiment
    out_of_reach = {} if config.host.is_local else _out_of_reach(experiment, config.host)
    ready, unavailable = _prepare_arms(config, listener)
    rounds = counting.prepare_benchmarks(experiment, config.recipes, config.host)
    fields = {s.name: _participants(s, ready, unavailable) for s in experiment.workload}
    left_out = out_of_reach | {
        name: "; ".join(f"{one.name} is missing: {one.reason}" for one in out)
        for name, (found, out) in fields.items()
        if not found and name not in out_of_reach
    }
    selected = [s for s in experiment.workload if s.name not in left_out]
    if config.host.network is not None:
        for setting in selected:  # What cannot be read is refused before anything is measured.
            config.host.network.use(setting.network)
    needs = {s.name: _requirements(experiment, s, len(fields[s.name][0])) for s in selected}
    beside = counting.seconds(experiment)
    efforts = sampling_plan.fit_time_budget(config.mode, needs, beside)
    header = ExperimentHeader(
        experiment=experiment,
        jissoku=config.version,
        started_utc=now_utc(),
        mode=config.mode,
        seed=config.seed,
        machine=config.host.machine(),
        cores=config.cores,
        workloads=tuple(needs),
        skipped=left_out,
        unavailable=unavailable,
        minutes=sampling_plan.minutes(
            [(needs[name], plan) for name, plan in efforts.items()], beside
        ),
    )
    questions = tuple(
        _compare_config(config, one, fields[one.name], needs[one.name], efforts[one.name])
        for one in selected
    )
    return ExperimentPlan(config=config, header=header, comparisons=questions, rounds=rounds)


def _out_of_reach(experiment: Experiment, host: ServerHost) -> dict[str, str]:
    """Why workloads cannot be measured on another host, by their names; InputError if none can."""
    found = {}
    for work in experiment.workload:
        if work.unix:
            found[work.name] = "a Unix socket cannot be reached from another host"
        elif work.shared_cores:
            found[work.name] = "the load cannot share the cores of servers on another host"
        elif work.network and host.network is None:
            found[work.name] = "the network to another host is not emulated"
    if len(found) == len(experiment.workload):
        reasons = " and ".join(dict.fromkeys(found.values()))
        raise InputError(
            f"no workload of {experiment.name} can be measured with --server-host, because"
            f" {reasons}: run it without an agent there"
        )
    return found


def run(plan: ExperimentPlan, listener: ProgressListener) -> bool:
    """Measures what was planned, with its records in the folder; False if it was interrupted.

    HostLost: the host of the targets is gone; what was measured until then is recorded.
    """
    config = plan.config
    networks = {one.name: one.network for one in config.experiment.workload}
    watched = counting.counted_arms(config.experiment)
    folders.write_header(config.folder, plan.header)
    figures: dict[str, BenchmarkOutput] = {}
    benched = counting.run_benchmarks(config.experiment, plan.rounds, config.cores, listener)
    folders.write_benchmarks(config.folder, figures)
    for name, output in benched:
        figures[name] = output
        folders.write_benchmarks(config.folder, figures)
    for number, question in enumerate(plan.comparisons, start=1):
        who = ", ".join(question.names)
        total = len(plan.comparisons)
        listener.note(f"Workload {number} of {total}, {question.folder.name}: {who}.")
        if network := config.host.network:
            network.use(networks[question.folder.name])
        is_whole = compare(question, listener)
        if network:
            folders.write_network(question.folder, network.forwarded())
        if not is_whole:
            return False
        arms = watched.get(question.folder.name, ())
        if arms:
            listener.note(f"Counting what a request does: {', '.join(arms)}.")
            mine = [one for one in question.arms_prepared if one.arm.name in arms]
            seed = f"{question.seed}/{question.folder.name}"
            counts: dict[str, CounterReadings] = {}
            counted = counting.count_arms(
                mine, question.workload, question.cores, seed, config.host
            )
            for name, readings in counted:
                counts[name] = readings
                folders.write_counters(question.folder, counts)
    folders.mark_finished(config.folder)
    return True


def claims_about(experiment: Experiment, arms: Container[str]) -> tuple[str, ...]:
    return tuple(
        claim.name
        for claim in experiment.claim
        if any(one.arm in arms for one in counting.named(claim))
    )


def read_result(folder: Path) -> ExperimentResult:
    """Evaluates an experiment from its records; the same records give the same results."""
    header = folders.read_header(folder)
    campaigns, summaries = {}, {}
    for name in header.workloads:
        if not (folder / name).is_dir():
            continue
        run, trials = records.read(folder / name)
        counters = folders.read_counters(folder / name)
        campaigns[name] = WorkloadTrials(run=run, trials=trials, counters=counters)
        summaries[name] = inference.summarise(run, trials)
    benchmarks = folders.read_benchmarks(folder)
    known = ClaimData(header=header, workloads=campaigns, benchmarks=benchmarks)
    return ExperimentResult(
        header=header,
        claims=evaluate_claims(known, header.experiment.claim),
        published=tuple(compare_published(known)),
        summaries=summaries,
        is_finished=folders.is_finished(folder),
    )


def _prepare_arms(
    config: ExperimentConfig, listener: ProgressListener
) -> tuple[dict[str, PreparedArm], tuple[UnavailableTarget, ...]]:
    """Every arm that can be started here; each recipe is prepared once."""
    made: dict[str, PreparedTarget | UnavailableTarget] = {}
    ready: dict[str, PreparedArm] = {}
    unavailable: list[UnavailableTarget] = []
    for spec in variants.arms(config.experiment.target, config.experiment.factor):
        source = spec.recipe or spec.command
        if source not in made:
            listener.note(f"Preparing {source}.")
            made[source] = _prepare_target(spec, config)
        found = made[source]
        if isinstance(found, UnavailableTarget):
            unavailable.append(updated(found, name=spec.name))
        else:
            ready[spec.name] = _prepared_arm(spec, found, config.host)
    return ready, tuple(unavailable)


def _prepare_target(
    spec: TargetSpec, config: ExperimentConfig
) -> PreparedTarget | UnavailableTarget:
    """A target that cannot be built is unavailable; the others run."""
    if spec.command:
        return config.host.prepare_command(f"{spec.name}={spec.command}")
    recipe = config.recipes[spec.recipe]
    try:
        return config.host.prepare(recipe, "")
    except TargetError as error:
        return UnavailableTarget(name=spec.name, reason=str(error), install_hint=recipe.install)


def _prepared_arm(spec: TargetSpec, prepared: PreparedTarget, host: ServerHost) -> PreparedArm:
    changed = host.with_changes(prepared, spec.change, spec.upstream)
    arm, text = changed.arm(spec.name), []
    for change in spec.change:
        if change.config:
            text.append(f"{change.config}: {_short(change.find)} -> {_short(change.replace)}")
        text += [" ".join(change.add)] if change.add else []
        text += [f"{key}={value}" for key, value in change.environment.items()]
    if text:
        arm = updated(arm, description=f"{arm.description}\nChanged: {'; '.join(text)}.")
    return PreparedArm(arm, changed)


def _short(text: str) -> str:
    return " ".join(text.split()) or "nothing"


def _participants(
    setting: WorkloadSpec, ready: Mapping[str, PreparedArm], missing: Iterable[UnavailableTarget]
) -> tuple[tuple[PreparedArm, ...], tuple[UnavailableTarget, ...]]:
    """The arms of one workload, and the reasons why others are excluded."""
    unavailable = {one.name: one for one in missing}
    wanted, asked = setting.arms or (*ready, *unavailable), capability(setting.path)
    participants, out = [], []
    for name in wanted:
        if name in unavailable:
            out.append(unavailable[name])
            continue
        able, reason = ready[name].prepared.capabilities, ""
        if able and asked is not None and asked not in able:
            reason = f"it does not serve {setting.path}"
        elif setting.unix and not ready[name].prepared.listen.unix:
            reason = "it cannot listen on a Unix socket"
        if reason:
            hint = "choose another path"
            out.append(UnavailableTarget(name=name, reason=reason, install_hint=hint))
        else:
            participants.append(ready[name])
    return tuple(participants), tuple(out)


def _requirements(experiment: Experiment, setting: WorkloadSpec, arms: int) -> WorkloadRequirements:
    published = [quantity(row.quantity) for row in experiment.published if row.quantity]
    wanted = [
        one
        for one in [*counting.quantities(experiment), *published]
        if not one.is_benchmark and (one.workload or experiment.workload[0].name) == setting.name
    ]
    metrics = {one.metric for one in wanted if not one.is_count}
    bursts = setting.closed_loop or setting.pipeline > 1
    return WorkloadRequirements(
        arms=arms,
        compares_cost=bool(metrics & COMPARED_METRICS) and not bursts,
        needs_closed_loop=bool(metrics - COMPARED_METRICS) or bursts,
        settle_s=setting.settle_s,
    )


def _compare_config(
    config: ExperimentConfig,
    setting: WorkloadSpec,
    field: tuple[tuple[PreparedArm, ...], tuple[UnavailableTarget, ...]],
    need: WorkloadRequirements,
    plan: SamplingPlan,
) -> CompareConfig:
    arms, unavailable = field
    cores = config.cores
    if setting.shared_cores:
        cores = CoreAssignment(server=available_cores(), generator=available_cores(), shared=True)
    return CompareConfig(
        arms_prepared=arms,
        unavailable=unavailable,
        workload=updated(
            workload(setting), headers=tuple(setting.headers.items()), body=b"x" * setting.body_size
        ),
        mode=config.mode,
        plan=plan,
        seed=config.seed,
        cores=cores,
        folder=config.folder / setting.name,
        version=config.version,
        closed_loop=setting.closed_loop,
        one_load=True,
        noise_floors=config.noise_floors,
        joint_trials=need.compares_cost or setting.closed_loop or setting.pipeline > 1,
        verb="run",
        experiment=config.experiment.name,
        request=config.request,
        host=config.host,
    )
