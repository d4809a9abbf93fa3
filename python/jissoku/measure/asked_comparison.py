"""A comparison from its request to the results of its bounds, for the command and for scripts."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from jissoku import records
from jissoku.errors import HostLost, InputError
from jissoku.inference.bounds import check_arms, confirmed
from jissoku.measure import ci
from jissoku.measure.compare import compare
from jissoku.measure.comparison import CompareConfig, check_request, compare_config, profiled_pair
from jissoku.measure.host import LocalHost, ServerHost
from jissoku.measure.profile import profile
from jissoku.measure.progress import ProgressListener
from jissoku.measure.reports import measured
from jissoku.measure.selection import arm_names, prepare_targets, workload
from jissoku.model import Trial, time_text, updated
from jissoku.model.summary import BoundResult
from jissoku.records.run_folder import check_new, holds_run
from jissoku.request import ComparisonRequest
from jissoku.system.cores import core_assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredComparison:
    """What was measured; `lost` is why it could not be recorded or measured any further.

    `bounds` are empty unless it is finished. `trials` have the paths of this machine.
    """

    config: CompareConfig
    is_finished: bool
    lost: str
    bounds: tuple[BoundResult, ...]
    trials: tuple[Trial, ...]


def check_asked(request: ComparisonRequest, folder: Path | None) -> tuple[Path | None, str]:
    """Refuses what cannot be measured; returns a baseline's folder, or its git ref or release."""
    earlier, ref = _split_baseline(request.baseline)
    check_request(request)
    if request.build and not ref:
        raise InputError("--build requires --baseline with a git ref or a release")
    if ref:
        ci.check_commands(request.cmd, request.build)
    if folder is not None:
        check_new(folder)  # Before a baseline is looked for.
        if request.confirm:
            check_new(_second(folder))
    workload(request)
    if not request.server_host:  # Its agent checks the cores of its host.
        core_assignment(request.server_cores, request.generator_cores)
    names = arm_names(request, has_floor=not ref)
    check_arms(request.fail_if, names | ({ci.BASE} if ref else set()))
    return earlier, ref


@contextmanager
def measured_comparison(
    request: ComparisonRequest,
    ref: str,
    folder: Path | None,
    version: str,
    listener: ProgressListener,
    host: ServerHost | None = None,
) -> Iterator[MeasuredComparison]:
    """Measures what `check_asked` has accepted; a baseline that was built exists for the block.

    `ref` is from there. `folder` None: a new one. `version` is that of jissoku, for the record.
    `host` is where the targets run; None: on this machine.
    """
    place = host or LocalHost()
    built = ci.baseline(ref, request.cmd, request.build, listener) if ref else nullcontext()
    with built as base:
        selection = prepare_targets(request, listener, has_floor=base is None, host=place)
        if base is not None:
            selection = updated(selection, arms=(base, *selection.arms))
        config = compare_config(
            request,
            selection,
            folder=folder,
            version=version,
            is_pair=base is not None,
            host=place,
        )
        seen: list[Trial] = []
        finished, lost = measured(
            lambda: _measure(config, listener, seen, has_profile=request.profile)
        )
        bounds = ci.evaluate_bounds(config.folder, request.fail_if) if finished else ()
        if request.confirm and ci.any_exceeded(bounds):
            listener.note("A bound is exceeded: confirming it with a second run.")
            again = updated(config, folder=_second(config.folder), seed=config.seed + 1)
            finished, lost = measured(lambda: _measure(again, listener, []))
            if finished:
                bounds = confirmed(bounds, ci.evaluate_bounds(again.folder, request.fail_if))
        yield MeasuredComparison(
            config=config, is_finished=finished, lost=lost, bounds=bounds, trials=tuple(seen)
        )


def _second(folder: Path) -> Path:
    """The folder of the run that confirms the one in `folder`."""
    named = folder if folder.name else folder.absolute()
    return named.with_name(f"{named.name}-confirmed")


def _measure(
    config: CompareConfig,
    listener: ProgressListener,
    seen: list[Trial],
    *,
    has_profile: bool = False,
) -> bool:
    """Runs the campaign, and samples its targets afterwards; whether it finished.

    HostLost: the host of the targets is gone; what was measured until then is recorded.
    """
    pair = profiled_pair(config) if has_profile else None
    for unavailable in config.unavailable:
        listener.note(unavailable.sentence)
    limit_s = config.plan.seconds
    ends = f"; the verdicts come in {time_text(limit_s)} at the latest" if limit_s else ""
    listener.note(f"Seed {config.seed}; records go to {config.folder}{ends}.")
    listener.note(f"The baseline is {config.names[0]}: the others are compared with it.")
    finished = compare(config, listener, seen)
    if finished and pair is not None:
        found, finished = profile(pair, listener)
        if found:
            records.write_profiles(pair.folder, found)
        if pair.host.lost and not finished:
            raise HostLost(pair.host.lost)
    return finished


def _split_baseline(given: str | None) -> tuple[Path | None, str]:
    if given is None:
        return None, ""
    folder = Path(given)
    if holds_run(folder):
        records.read(folder)
        return folder, ""
    ci.check_ref(given)
    return None, given
