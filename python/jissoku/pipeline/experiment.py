"""An experiment: its targets made ready, each workload a campaign of its own, and the answer.

File -> arms -> contestants -> what each workload needs -> efforts that fit into the mode's minutes
-> header -> benches -> one campaign after the other, each in a folder inside the experiment's, and
what claims want counted -> (a reader turns the records into answers).
"""

import dataclasses
import datetime as dt
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from jissoku import records, stats
from jissoku.design import budget, factors
from jissoku.design.budget import Need
from jissoku.design.mode import Effort
from jissoku.errors import TargetError
from jissoku.model import Cores, Counts, Missing, Mode, Recipe, Reuse, Transport, Workload
from jissoku.model.experiment import Entrant, Experiment, Header, Outcome, Setting
from jissoku.observe.cores import allowed
from jissoku.observe.machine import machine
from jissoku.pipeline import observation
from jissoku.pipeline.bench import Contestant
from jissoku.pipeline.campaign import Pace, Question, compare
from jissoku.pipeline.listener import Listener
from jissoku.records import experiment as folders
from jissoku.stats.claims import Known, answer
from jissoku.stats.figures import Campaign
from jissoku.stats.inequality import Quantity, quantity
from jissoku.stats.published import beside
from jissoku.targets import command
from jissoku.targets.contract import part
from jissoku.targets.place import Place
from jissoku.targets.prepare import Prepared, prepare


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What was asked for, and where it is to happen."""

    experiment: Experiment
    recipes: Mapping[str, Recipe]
    place: Place
    mode: Mode
    seed: int
    cores: Cores
    folder: Path
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An experiment that can be started."""

    wish: Wish
    header: Header
    questions: tuple[Question, ...]


def plan(wish: Wish, listener: Listener) -> Plan:
    """Makes every target ready, and plans the time.

    Raises:
        InputError: A command of the file cannot be run.
    """
    experiment = wish.experiment
    ready, missing = _ready(wish, listener)
    fields = {s.name: _field(s, ready, missing) for s in experiment.workload}
    left_out = {name: _nobody(m) for name, (found, m) in fields.items() if not found}
    racing = [s for s in experiment.workload if s.name not in left_out]
    needs = {s.name: _need(experiment, s, len(fields[s.name][0])) for s in racing}
    beside = observation.seconds(experiment)
    efforts = budget.choose(wish.mode, needs, beside)
    header = Header(
        experiment=experiment,
        jissoku=wish.version,
        started_utc=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        mode=wish.mode,
        seed=wish.seed,
        machine=machine(),
        cores=wish.cores,
        workloads=tuple(needs),
        left_out=left_out,
        missing=missing,
        minutes=budget.minutes([(needs[name], effort) for name, effort in efforts.items()], beside),
    )
    questions = tuple(
        _question(wish, setting, fields[setting.name], needs[setting.name], efforts[setting.name])
        for setting in racing
    )
    return Plan(wish=wish, header=header, questions=questions)


def run(plan: Plan, listener: Listener) -> bool:
    """Runs every workload; what was finished stays on disk.

    Returns:
        Whether it ran to its end.

    Raises:
        InputError: The folder holds an experiment already or cannot be written.
    """
    wish = plan.wish
    watched = observation.watched(wish.experiment)
    folders.write_header(wish.folder, plan.header)
    figures = observation.figures(wish.experiment, wish.recipes, wish.place, wish.cores, listener)
    folders.write_figures(wish.folder, figures)
    for number, question in enumerate(plan.questions, start=1):
        who = ", ".join(question.names)
        total = len(plan.questions)
        listener.note(f"Workload {number} of {total}, {question.folder.name}: {who}.")
        if not compare(question, listener):
            return False
        arms = watched.get(question.folder.name, ())
        if arms:
            listener.note(f"Counting what a request does: {', '.join(arms)}.")
            folders.write_counters(question.folder, _counted(question, arms))
    folders.mark_finished(wish.folder)
    return True


def about(experiment: Experiment, arms: Container[str]) -> tuple[str, ...]:
    """Names of the claims that speak of one of these arms."""
    return tuple(
        claim.name
        for claim in experiment.claim
        if any(one.arm in arms for one in observation.named(claim))
    )


def _counted(question: Question, arms: Container[str]) -> dict[str, Counts]:
    mine = [one for one in question.contestants if one.arm.name in arms]
    seed = f"{question.seed}/{question.folder.name}"
    return observation.count_each(mine, question.workload, question.cores, seed)


def outcome(folder: Path) -> Outcome:
    """Answers an experiment from its records; the same records give the same answers.

    Raises:
        InputError: A record is malformed.
    """
    header = folders.read_header(folder)
    campaigns, summaries = {}, {}
    for name in header.workloads:
        if not (folder / name).is_dir():
            continue
        run, trials = records.read(folder / name)
        counters = folders.read_counters(folder / name)
        campaigns[name] = Campaign(run=run, trials=trials, counters=counters)
        summaries[name] = stats.summarise(run, trials)
    known = Known(header=header, campaigns=campaigns, figures=folders.read_figures(folder))
    return Outcome(
        header=header,
        claims=tuple(answer(known, claim) for claim in header.experiment.claim),
        beside=tuple(beside(known)),
        summaries=summaries,
        is_finished=folders.is_finished(folder),
    )


def _ready(wish: Wish, listener: Listener) -> tuple[dict[str, Contestant], tuple[Missing, ...]]:
    """Every arm that can be started here; each recipe is made ready once."""
    experiment = wish.experiment
    made: dict[str, Prepared | Missing] = {}
    ready: dict[str, Contestant] = {}
    missing: list[Missing] = []
    for entrant in factors.arms(experiment.target, experiment.factor, experiment.design):
        source = entrant.recipe or entrant.command
        if source not in made:
            listener.note(f"Preparing {source}.")
            made[source] = _made(entrant, wish)
        found = made[source]
        if isinstance(found, Missing):
            missing.append(dataclasses.replace(found, name=entrant.name))
        else:
            ready[entrant.name] = _contestant(entrant, found)
    return ready, tuple(missing)


def _made(entrant: Entrant, wish: Wish) -> Prepared | Missing:
    """One that cannot be built is missing, too: the others are raced all the same."""
    if entrant.command:
        return command.from_command(f"{entrant.name}={entrant.command}", wish.place)
    recipe = wish.recipes[entrant.recipe]
    try:
        return prepare(recipe, wish.place)
    except TargetError as error:
        return Missing(name=entrant.name, reason=str(error), remedy=recipe.install)


def _contestant(entrant: Entrant, prepared: Prepared) -> Contestant:
    """An arm with its changes made; what they are stands in its essay."""
    assert prepared.start is not None, "recipes and commands are started"
    start, config = prepared.start, prepared.config
    told = []
    for change in entrant.change:
        if change.config:
            config = tuple(
                dataclasses.replace(one, text=one.text.replace(change.find, change.put))
                if one.name == change.config
                else one
                for one in config
            )
            told.append(f"{change.config}: {_short(change.find)} -> {_short(change.put)}")
        start = dataclasses.replace(
            start,
            command=(*start.command, *change.add),
            environment=start.environment | change.environment,
        )
        told += [" ".join(change.add)] if change.add else []
        told += [f"{key}={value}" for key, value in change.environment.items()]
    changed = dataclasses.replace(prepared, start=start, config=config)
    arm = changed.arm(entrant.name)
    if told:
        arm = dataclasses.replace(arm, essay=f"{arm.essay}\nChanged: {'; '.join(told)}.")
    return Contestant(arm, changed)


def _short(text: str) -> str:
    return " ".join(text.split()) or "nothing"


def _field(
    setting: Setting, ready: Mapping[str, Contestant], missing: Iterable[Missing]
) -> tuple[tuple[Contestant, ...], tuple[Missing, ...]]:
    """Who can race in one workload, and why the others cannot."""
    lacking = {one.name: one for one in missing}
    wanted = setting.arms or (*ready, *lacking)
    racing, out = [], []
    for name in wanted:
        if name in lacking:
            out.append(lacking[name])
            continue
        reason = _unable(setting, ready[name].prepared)
        if reason:
            remedy = "ask it something else"
            out.append(Missing(name=name, reason=reason, remedy=remedy))
        else:
            racing.append(ready[name])
    return tuple(racing), tuple(out)


def _unable(setting: Setting, prepared: Prepared) -> str:
    asked = part(setting.path)
    if prepared.parts and asked is not None and asked not in prepared.parts:
        return f"it does not serve {setting.path}"
    if setting.unix and not prepared.listens_unix:
        return "it cannot listen on a Unix socket"
    return ""


def _nobody(missing: Iterable[Missing]) -> str:
    return "; ".join(f"{one.name} is missing: {one.reason}" for one in missing)


def _need(experiment: Experiment, setting: Setting, arms: int) -> Need:
    """What claims and published figures ask of one workload."""
    wanted = [
        one
        for one in _quantities(experiment)
        if not one.is_figure and (one.workload or experiment.workload[0].name) == setting.name
    ]
    duets = arms - 1 if any(one.metric == "cost" for one in wanted) else 0
    return Need(
        arms=arms,
        duets=duets,
        alone=not duets or any(one.metric != "cost" and not one.is_count for one in wanted),
        paced=setting.rate is not None,
        late=any(one.metric in ("p50", "p99") for one in wanted),
    )


def _quantities(experiment: Experiment) -> list[Quantity]:
    return observation.quantities(experiment) + [
        quantity(row.quantity) for row in experiment.published if row.quantity
    ]


def _question(
    wish: Wish,
    setting: Setting,
    field: tuple[tuple[Contestant, ...], tuple[Missing, ...]],
    need: Need,
    effort: Effort,
) -> Question:
    contestants, missing = field
    cores = wish.cores
    if setting.shared_cores:
        cores = Cores(server=allowed(), stopwatch=allowed(), shared=True)
    return Question(
        contestants=contestants,
        floor=None,
        missing=missing,
        workload=Workload(
            path=setting.path,
            headers=tuple(setting.headers.items()),
            connections=setting.connections,
            pipeline=setting.pipeline,
            reuse=Reuse.KEEP_ALIVE if setting.keepalive else Reuse.CLOSE,
            rate_rps=setting.rate,
            transport=Transport.UNIX if setting.unix else Transport.TCP,
        ),
        mode=wish.mode,
        effort=effort,
        seed=wish.seed,
        cores=cores,
        folder=wish.folder / setting.name,
        version=wish.version,
        pace=Pace.CLOSED if setting.closed_loop else Pace.COMMON,
        duets=need.duets > 0,
    )
