"""What claims need beside trials: counts per request, and figures that benches print.

Each comes from starts of its own. Nothing of it runs beside a timed trial, and no time is taken
where calls are counted.
"""

import random
from collections.abc import Iterable, Mapping

from jissoku.errors import TargetError
from jissoku.model import Cores, Counts, Missing, Recipe, Reuse, Transport, Workload
from jissoku.model.experiment import Bench, Claim, Experiment, Figures
from jissoku.observe import bench as programs, counters
from jissoku.observe.cores import pinned
from jissoku.observe.counters import Asked, CannotAsk
from jissoku.pipeline.bench import Contestant
from jissoku.pipeline.listener import Listener
from jissoku.stats.inequality import FIGURE, Quantity, parse
from jissoku.targets import process, ready
from jissoku.targets.address import Address, free_port
from jissoku.targets.place import Place
from jissoku.targets.placeholder import fill
from jissoku.targets.prepare import Prepared, prepare
from jissoku.targets.process import Placement
from jissoku.targets.scrub import scrub

# The bench that needs no program: what the machine itself costs.
HERE = Bench(name="here", command=(), rounds=9, seconds=0.1)

# About how long it takes to start a target, to count and to stop it.
COUNT_S = 3.0


def quantities(experiment: Experiment) -> list[Quantity]:
    """All that an experiment's claims speak of."""
    return [one for claim in experiment.claim for one in named(claim)]


def named(claim: Claim) -> list[Quantity]:
    """All that one claim speaks of."""
    return [one for text in claim.test for link in parse(text) for one in link.quantities]


def watched(experiment: Experiment) -> dict[str, tuple[str, ...]]:
    """Whose requests have to be counted, by workload."""
    found: dict[str, dict[str, None]] = {}
    for one in quantities(experiment):
        if one.is_count and one.metric != "errors":
            name = one.workload or experiment.workload[0].name
            found.setdefault(name, {})[one.arm] = None
    return {name: tuple(arms) for name, arms in found.items()}


def benches(experiment: Experiment) -> tuple[Bench, ...]:
    """The benches that claims speak of; others need not be run."""
    wanted = {one.arm for one in quantities(experiment) if one.metric.startswith(f"{FIGURE}.")}
    return tuple(one for one in (*experiment.bench, HERE) if one.name in wanted)


def seconds(experiment: Experiment) -> float:
    """About how long all of it takes."""
    counting = sum(len(arms) for arms in watched(experiment).values()) * COUNT_S
    return counting + sum(one.rounds * one.seconds for one in benches(experiment))


def count(prepared: Prepared, workload: Workload, cores: Cores, seed: str) -> Counts:
    """Counts what a request makes a target do, in a start of its own.

    Requests go out one at a time, so that a wait which answers many under load answers one here:
    calls are counted at their most.

    Raises:
        TargetError: It does not start or does not answer.
    """
    if workload.pipeline > 1:
        reason = "requests in a pipeline cannot be counted one by one"
        return Counts(requests=0, calls_reason=reason)
    on_unix = workload.transport is Transport.UNIX or not prepared.listen.tcp
    rng = random.Random(seed)
    placement = Placement(
        port=None if on_unix else free_port(rng),
        cores=cores.server,
        workers=len(cores.server),
        seed=rng.getrandbits(31),
    )
    try:
        with process.start(prepared, placement) as running:
            ready.wait(running, workload)
            assert running.pid is not None, "what is counted is started by us"
            return counters.count(running.pid, _asked(running.address, workload))
    except CannotAsk as error:
        raise TargetError(str(error)) from error


def _asked(address: Address, workload: Workload) -> Asked:
    closing = (("Connection", "close"),) if workload.reuse is Reuse.CLOSE else ()
    return Asked(
        address=address.socket or (address.host, address.port),
        target=workload.path,
        fields=(*workload.headers, *closing),
        method=workload.method,
        body=workload.body,
    )


def count_each(
    contestants: Iterable[Contestant], workload: Workload, cores: Cores, seed: str
) -> dict[str, Counts]:
    """Counts for several arms; one that does not answer has its reason in the place of counts."""
    found = {}
    for contestant in contestants:
        name = contestant.arm.name
        try:
            found[name] = count(contestant.prepared, workload, cores, f"{seed}/{name}")
        except TargetError as error:
            found[name] = Counts(requests=0, calls_reason=scrub(str(error)))
    return found


def figures(
    experiment: Experiment,
    recipes: Mapping[str, Recipe],
    place: Place,
    cores: Cores,
    listener: Listener,
) -> dict[str, Figures]:
    """Runs every bench that is needed, round by round on the server's cores."""
    found = {}
    for bench in benches(experiment):
        listener.note(f"Bench {bench.name}: {bench.rounds} rounds.")
        try:
            command = _command(bench, recipes, place)
            with pinned(cores.server):
                rounds = tuple(_round(bench, command) for _ in range(bench.rounds))
            found[bench.name] = Figures(rounds=rounds)
        except TargetError as error:
            found[bench.name] = Figures(reason=scrub(str(error)))
    return found


def _round(bench: Bench, command: tuple[str, ...]) -> dict[str, float]:
    return programs.here() if bench is HERE else programs.run(bench.name, command)


def _command(bench: Bench, recipes: Mapping[str, Recipe], place: Place) -> tuple[str, ...]:
    if not bench.recipe:
        return fill(bench.command, place.values(bench.name))
    made = prepare(recipes[bench.recipe], place)
    if isinstance(made, Missing):
        raise TargetError(made.sentence)
    return fill(bench.command, made.values)
