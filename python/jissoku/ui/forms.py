"""From a form's fields to the request of a command, and back: checked options of named recipes.

Every value is one argument, and no shell reads it. What is not in the catalogue is refused in one
sentence, and so is what names something of the machine, unless that is allowed.
"""

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from jissoku.design.sampling_plan import MINUTES_MAX, SAMPLING_PLANS, comparison_seconds
from jissoku.design.schedule import CAPACITY_FRACTIONS, LOADS, levels_of, validated_levels
from jissoku.errors import InputError
from jissoku.measure import experiment_file
from jissoku.measure.host import build_paths
from jissoku.measure.profile import TARGETS_MAX as PROFILED_MAX
from jissoku.measure.selection import DEFAULT_TARGETS
from jissoku.model import Axis, Load, LoadLevel, Mode, Recipe, UnavailableTarget, plural, updated
from jissoku.model.history import Series
from jissoku.report.history import Board, Suspicion, no_confirmation, suspicions
from jissoku.request import (
    KINDS,
    AnyRequest,
    ComparisonRequest,
    ExperimentRequest,
    ProfileRequest,
    SweepRequest,
    TuningRequest,
    from_argv,
    to_argv,
)
from jissoku.request.options import local_texts
from jissoku.request.param_types import LEVELS
from jissoku.system.address import is_loopback
from jissoku.system.cores import available_cores
from jissoku.targets.catalogue import recipes
from jissoku.targets.command import split_version
from jissoku.targets.contract import capability
from jissoku.targets.prepare import missing_requirement
from jissoku.ui.job_progress import Span

# The field with the words of a request; it is sent once for each word.
WORD = "word"

# Buttons that start a suspicion's measurement: of both programs together, or of one more occasion.
RACE, AGAIN = "Race them now", "Measure again"


def query_of(request: msgspec.Struct) -> str:
    """The query of an address that fills in the form of a request."""
    return urlencode([(WORD, word) for word in to_argv(request)])


def request_of_board(board: Board) -> ComparisonRequest:
    targets = tuple(dict.fromkeys(one.target for one in board.series))
    return updated(board.series[0].race, arms=targets, cmd=(), url=())


def answers_of_series(series: Series) -> list[tuple[str, msgspec.Struct]]:
    """What to measure about a series: each suspicion, or the target once more. With its label."""
    found = [answer_of_suspicion(one) for one in suspicions([series])]
    if not found:
        return [(AGAIN, series.race)]
    return list({request: (label, request) for label, _, request in found}.values())


def answer_of_suspicion(one: Suspicion) -> tuple[str, str, msgspec.Struct]:
    """The label of a suspicion's button, why both cannot be measured together, and the request."""
    if one.change.confirmation is not None:
        return RACE, "", one.change.confirmation.request
    return AGAIN, no_confirmation(one.change), one.series.race


# Programs are looked for again after this; a program that was installed is offered then.
REFRESH_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """What forms offer; experiments by name, title and description.

    `defaults` are the targets of a comparison in which none is named, as far as they are here.
    """

    available: tuple[Recipe, ...]
    missing: tuple[UnavailableTarget, ...]
    defaults: tuple[str, ...]
    experiments: tuple[tuple[str, str, str], ...]


def catalogue() -> Catalogue:
    """What can be started here, at most `REFRESH_S` old."""
    return read_catalogue(time.monotonic() // REFRESH_S)


@lru_cache(maxsize=1)
def read_catalogue(_: float) -> Catalogue:
    """The same, read again for another argument."""
    known = recipes()
    where = build_paths()
    lacks = {name: missing_requirement(recipe, where) for name, recipe in known.items()}
    experiments = [
        (path.stem, experiment.title, " ".join(experiment.description.split()))
        for path in experiment_file.builtin_experiments()
        for experiment in [experiment_file.read(path, known)]
    ]
    return Catalogue(
        available=tuple(known[name] for name, lack in lacks.items() if lack is None),
        missing=tuple(lack for lack in lacks.values() if lack is not None),
        defaults=tuple(name for name in DEFAULT_TARGETS if lacks.get(name, True) is None),
        experiments=tuple(experiments),
    )


Fields = Mapping[str, Sequence[str]]

# Of `jissoku tune`, at least: of one knob that is refuted.
TUNE_S = 60.0

# Of `jissoku profile`, for each target beside its window; and of a start in a sweep.
PROFILED_S, START_S = 6.0, 1.0

# Of `jissoku explain`; with --verify also a comparison for each knob, which it has yet to choose.
EXPLAIN_S = 45.0

# Of `jissoku self-test`, for each campaign of equal arms; the other series follow from it.
PROVE_S = 57.0

# Of `jissoku publish`: for its start, for each run, and for one whose report is not there: as
# measured with the records of a quick comparison of seven.
PUBLISH_S, PUBLISHED_RUN_S, REPORTED_RUN_S = 2.0, 0.3, 1.5

TARGETS_MAX = 12
CONNECTIONS_MAX = 20_000
RATE_MAX = 10_000_000
BLOCKS_MAX = 200
DURATION_MAX_S = 600
# Of a value that a user writes.
LENGTH_MAX = 500
# Of all words of a request.
WORDS_MAX = 20_000
# Of a target with its version, and of the name that it gets.
WORD_MAX = 160
# Campaigns of equal arms of the laboratory's test of itself: as in the terminal, and at most.
CAMPAIGNS, CAMPAIGNS_MAX = 20, 200
# The argument that names the folder of records.
OUT = "--out={}"
ARM = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What forms may name: recipes, experiments, knobs by target, folders of runs by key, roots."""

    targets: Collection[str]
    experiments: Collection[str]
    knobs: Mapping[str, Collection[str]] = field(default_factory=dict)
    allows_commands: bool = False
    folders: Mapping[str, str] = field(default_factory=dict)
    roots: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A command to be started, with its arguments after `jissoku`.

    `names` are for the folder of its records, which `folder_word` names. One that `is_own` runs a
    command of the user's, and so is shown before it starts.
    """

    title: str
    names: tuple[str, ...]
    arguments: tuple[str, ...]
    takes: Span
    is_own: bool = False
    folder_word: str = OUT

    def placed(self, folder: Path) -> tuple[str, ...]:
        command, *rest = self.arguments
        return (command, self.folder_word.format(folder), *rest)


def read_form(kind: str, fields: Fields, choices: Choices) -> JobRequest:
    """The command of a form; InputError: a field is missing, unknown or out of bounds."""
    if kind in READERS:
        return READERS[kind](fields, choices)
    if kind not in FORMS:
        raise InputError(f"there is no form {kind[:40]!r}")
    request = _request(KINDS[kind], fields)
    names = _names(request, choices)
    if len(names) > TARGETS_MAX:
        raise InputError(f"{len(names)} targets are too many: select at most {TARGETS_MAX}")
    title = "experiment" if kind == "run" else kind
    return JobRequest(
        title=f"{title} {', '.join(names)}",
        names=names if kind in {"compare", "run"} else (kind, *names),
        arguments=to_argv(request),
        takes=SPANS[kind](request, len(names)),
        is_own=any(local_texts(request)),
    )


def _request(kind: type[AnyRequest], fields: Fields) -> AnyRequest:
    """The request of a button, or of the form, whose fields count where it has one of a name."""
    words = fields.get(WORD, ())
    if sum(map(len, words)) > WORDS_MAX:
        raise InputError("the command is too long")
    if any("\0" in word for word in words):
        raise InputError("no word of a command has a NUL")
    request = from_argv(words) if words else None
    if request is not None and not isinstance(request, kind):
        raise InputError(f"this form starts no `jissoku {words[0]}`")
    # A button sends nothing else, a form has other fields, too.
    if request is not None and not fields.keys() - {WORD, "form_key", "confirmed"}:
        return request
    given: dict[str, Any] = {}
    for name in FORMS[str(kind.__struct_config__.tag)]:
        value = INPUTS[name].read(fields)
        given[name] = _default(kind, name) if value is None else value
    has_own = kind in {ComparisonRequest, SweepRequest, ProfileRequest}
    for name in ("cmd", "url") if has_own else ():
        if one := _one(fields, name):
            given[name] = (*getattr(request, name, ()), one)
    return kind(**given) if request is None else updated(request, **given)


def form_values(request: AnyRequest) -> dict[str, list[str]]:
    """The fields of the form that asks for a request, with its other options as words."""
    kind = type(request)
    verb = str(kind.__struct_config__.tag)
    if verb not in FORMS:
        raise InputError(f"`jissoku {verb}` is started in a terminal only")
    given = {}
    others = request
    for name in FORMS[verb]:
        value, default = getattr(request, name), _default(kind, name)
        given[INPUTS[name].shown] = INPUTS[name].texts(value)
        if name != "target":  # `jissoku tune` is nothing without one.
            others = updated(others, **{name: default})
    return {name: values for name, values in given.items() if values} | {WORD: [*to_argv(others)]}


def _default(kind: type[AnyRequest], name: str) -> Any:
    (found,) = (one.default for one in msgspec.structs.fields(kind) if one.name == name)
    return None if found is msgspec.NODEFAULT else found


def _names(request: AnyRequest, choices: Choices) -> tuple[str, ...]:
    """The names of what is measured; an InputError if one of them is not offered here."""
    if isinstance(request, ExperimentRequest):
        _require(request.name or "", choices.experiments, "experiment")
    if any(local_texts(request)) and not choices.allows_commands:
        raise InputError("commands, files and URLs need `jissoku ui --allow-commands`")
    if isinstance(request, ExperimentRequest):
        return (request.name or "",)
    names = [_arm(word, choices) for word in getattr(request, "arms", ())]
    if (target := getattr(request, "target", None)) is not None:
        _require(target, choices.targets, "target that is available here")
        names.append(target)
    if isinstance(request, TuningRequest):
        known = choices.knobs.get(request.target, ())
        for knob in filter(None, request.knobs.split(",")):
            _require(knob.strip(), known, f"knob of {request.target}")
    names += filter(None, [getattr(request, "group", "")])
    names += _own_names(request)
    if not names:
        raise InputError("select at least one target")
    if isinstance(request, ProfileRequest) and len(names) > PROFILED_MAX:
        raise InputError(f"select one target, or two whose profiles are compared: {len(names)} are")
    return tuple(names)


def _own_names(request: AnyRequest) -> Iterator[str]:
    for name, what in (("cmd", "COMMAND"), ("url", "URL")):
        given = getattr(request, name, None) or ()
        for word in (given,) if isinstance(given, str) else given:
            own, equals, rest = word.partition("=")
            if not equals or not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,39}", own) or not rest:
                raise InputError(f"{word[:80]!r} has no name: write NAME={what}")
            if what == "URL":
                _require_loopback(rest)
            yield own


def _exactly(seconds: float) -> Span:
    return Span(seconds, seconds)


def _sweep_span(request: SweepRequest, targets: int) -> Span:
    plan = SAMPLING_PLANS[Mode.QUICK if request.quick else Mode.STANDARD]
    axis = Axis(request.over)
    levels = request.levels or levels_of(axis, len(available_cores())) or CAPACITY_FRACTIONS
    each_s = START_S + (plan.warmup_ns + plan.window_ns) / 1e9
    return _exactly(targets * len(levels) * request.blocks * each_s)


def comparison_span(request: ComparisonRequest, targets: int) -> Span:
    """How long a comparison of this many targets and the floor takes."""
    mode = Mode.QUICK if request.quick else Mode.STANDARD
    plan, blocks = SAMPLING_PLANS[mode], request.blocks
    if blocks is not None:
        closed = min(plan.closed_loop_blocks, blocks)
        plan = updated(plan, blocks=blocks, blocks_max=blocks, closed_loop_blocks=closed)
    loads = [Load(rate_rps=rate, level=level) for rate, level in LOADS[mode]]
    if request.rate is not None:
        loads = [Load(rate_rps=request.rate, level=LoadLevel.GIVEN)]
    return Span(*comparison_seconds(plan, loads, targets + 1))


def _prove(fields: Fields, choices: Choices) -> JobRequest:
    del choices
    campaigns = _number(fields, "campaigns", 1, CAMPAIGNS_MAX) or CAMPAIGNS
    return JobRequest(
        title="self-test",
        names=("self-test",),
        arguments=("self-test", f"--campaigns={campaigns}"),
        takes=_exactly(campaigns * PROVE_S),
    )


def _publish(fields: Fields, choices: Choices) -> JobRequest:
    """All runs, or the one of a key."""
    key = _one(fields, "run")
    if key and key not in choices.folders:
        raise InputError(f"no run has the key {key[:80]!r}")
    folders = [choices.folders[key]] if key else choices.roots
    count = 1 if key else len(choices.folders)
    if not count:
        raise InputError("there is no run to publish")
    what = f"run {key[:8]}" if key else f"{count} {plural(count, 'run')}"
    return JobRequest(
        title=f"publish {what}",
        names=("publish",),
        arguments=("publish", *(f"--records={folder}" for folder in folders)),
        takes=Span(PUBLISH_S + count * PUBLISHED_RUN_S, PUBLISH_S + count * REPORTED_RUN_S),
        folder_word="{}",
    )


READERS: Mapping[str, Callable[[Fields, Choices], JobRequest]] = {
    "prove": _prove,
    "publish": _publish,
}

# By kind of request how long it takes with this number of targets.
SPANS: Mapping[str, Callable[[Any, int], Span]] = {
    "compare": comparison_span,
    "sweep": _sweep_span,
    "profile": lambda request, targets: _exactly(targets * (PROFILED_S + request.duration)),
    "tune": lambda *_: Span(TUNE_S),
    "explain": lambda request, _: Span(EXPLAIN_S, None if request.verify else EXPLAIN_S),
    # Its plan fits these minutes.
    "run": lambda request, _: _exactly(
        60 * MINUTES_MAX[Mode.QUICK if request.quick else Mode.STANDARD]
    ),
}


def _arm(word: str, choices: Choices) -> str:
    """The name of the arm that `TARGET`, `NAME=TARGET`, or either with `@VERSION` adds."""
    given, equals, target = word.rpartition("=")
    name, version = split_version(target)
    if len(word) > WORD_MAX or (equals and not ARM.fullmatch(given)):
        raise InputError(f"{word[:80]!r} is no target: write TARGET or NAME=TARGET")
    _require(name, choices.targets, "target that is available here")
    return given or (f"{name}-{version}" if version else name)


def _path(fields: Fields) -> str:
    path = _one(fields, "path") or "/"
    if capability(path) is None:
        raise InputError(f"{path[:80]!r} is no path that targets serve: choose one of the list")
    return path


def _one_of(fields: Fields, name: str, known: Collection[str], what: str) -> str:
    value = _one(fields, name)
    if value:
        _require(value, known, what)
    return value


def _levels(fields: Fields) -> tuple[int, ...] | None:
    text = _one(fields, "levels")
    if not text:
        return None
    try:
        return validated_levels(LEVELS.read(text))
    except ValueError as error:
        raise InputError(str(error)) from error


def _require_loopback(url: str) -> None:
    """Load is sent to this machine only."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        host = ""
    if not is_loopback(host):
        raise InputError(f"{url[:80]!r} is not on this machine: use 127.0.0.1, [::1] or localhost")


def _one(fields: Fields, name: str) -> str:
    """A field's only value, without white space around it; empty if it was not sent."""
    values = fields.get(name, ())
    if len(values) > 1:
        raise InputError(f"the field {name!r} was sent {len(values)} times")
    value = values[0].strip() if values else ""
    if len(value) > LENGTH_MAX or not value.isprintable():
        raise InputError(f"the field {name!r} has control characters or is too long")
    return value


def _number(fields: Fields, name: str, least: int, most: int) -> int | None:
    text = _one(fields, name)
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,9}", text) or not least <= int(text) <= most:
        raise InputError(f"{name}: {text[:40]!r} is not a number from {least} to {most}")
    return int(text)


def _require(name: str, known: Collection[str], what: str) -> None:
    if name not in known:
        raise InputError(f"{name[:80]!r} is no {what}")


@dataclass(frozen=True, slots=True)
class Input:
    """A field of a request in a form: its name there, and its values there and back.

    What `read` gives as None was not given, and the default holds.
    """

    shown: str
    read: Callable[[Fields], Any]
    texts: Callable[[Any], list[str]] = lambda value: [] if value in {None, ""} else [f"{value}"]


def _input(name: str) -> Input:
    return Input(name, lambda fields: _one(fields, name) or None)


def _count_of(name: str, most: int) -> Input:
    return Input(
        name,
        lambda fields: _number(fields, name, 1, most),
        lambda value: [] if value is None else [f"{value:g}"],
    )


# By the name of a request's field.
INPUTS: Mapping[str, Input] = {
    "arms": Input("target", lambda fields: tuple(dict.fromkeys(fields.get("target", ()))), list),
    "target": _input("target"),
    "name": _input("experiment"),
    "path": Input("path", _path),
    "connections": _count_of("connections", CONNECTIONS_MAX),
    "rate": _count_of("rate", RATE_MAX),
    "blocks": _count_of("blocks", BLOCKS_MAX),
    "duration": _count_of("duration", DURATION_MAX_S),
    "over": Input(
        "over", lambda fields: _one_of(fields, "over", tuple(Axis), "factor of a sweep") or None
    ),
    "levels": Input("levels", _levels, lambda value: [LEVELS.text(value)] if value else []),
    "knobs": _input("knobs"),
    "keepalive": Input(
        "close", lambda fields: not _one(fields, "close"), lambda value: [] if value else ["yes"]
    ),
    "verify": Input(
        "verify", lambda fields: bool(_one(fields, "verify")), lambda value: ["yes"] * value
    ),
    "quick": Input(
        "mode",
        lambda fields: _one_of(fields, "mode", tuple(Mode), "mode") != Mode.STANDARD,
        lambda value: ["quick" if value else "standard"],
    ),
    "standard": Input(
        "mode",
        lambda fields: _one_of(fields, "mode", tuple(Mode), "mode") == Mode.STANDARD,
        lambda value: ["standard" if value else "quick"],
    ),
}

# By kind of request the fields that its form has; others are kept beside them, as words.
FORMS: Mapping[str, tuple[str, ...]] = {
    "compare": ("arms", "path", "connections", "rate", "blocks", "keepalive", "quick"),
    "sweep": ("arms", "over", "levels", "path", "connections", "keepalive", "quick"),
    "profile": ("arms", "path", "connections", "rate", "duration", "keepalive"),
    "tune": ("target", "knobs", "path", "connections", "rate", "standard"),
    "explain": ("target", "path", "connections", "rate", "verify"),
    "run": ("name", "quick"),
}
