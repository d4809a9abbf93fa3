"""From samples to CPU time per request: shares of samples, times the CPU time that was measured.

The load generator measures the CPU time of the window by the kernel's accounting; samples only
divide it. Intervals are those of counts: Wilson's score interval of a share (Wilson 1927).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt

from jissoku.inference.texts import said
from jissoku.model import profile as model
from jissoku.model.wording import counted, micro_text, plural

# Normal quantile of a two-sided interval of 95 %.
Z = 1.959964

# Samples and accounting may differ by this part before it is said: a timer's ticks in the kernel
# fall where interrupts are allowed again, and the window's edges are a millisecond apart.
AGREEMENT_MAX = 0.05

# Outermost functions of the kernel on the way from user space, on x86-64 and aarch64.
ENTRY = re.compile(
    r"(asm_)?(entry_SYSCALL\w*|do_syscall_64|x64_sys_call|el0t?_\w+|invoke_syscall\w*|do_el0_svc)"
    r"|el0_svc\w*"
)
CALL_PREFIX = re.compile(
    r"__(x64|ia32|arm64|se|do)_(compat_)?sys_|(__|k|do_)sys_|__sys_|do_(?=writev|readv|sendfile)"
)
EXIT = re.compile(r"(syscall|exit|irqentry)_\w*(mode|loop|work|prepare)\w*|\w*_to_user_mode\w*")
PAGE_FAULT = re.compile(r"(asm_)?exc_page_fault|do_page_fault|el0_[di]a")
INTERRUPT = re.compile(r"(asm_)?(sysvec_\w+|common_interrupt)|el\d_irq\w*|(asm_)?exc_\w+")

USER_SPACE = "user space"
KERNEL_UNSEEN = "kernel (not sampled)"
TOO_SHORT = "not sampled: processes end too soon"

# Branches of the tree that are smaller are not shown; nor are functions nearly all of whose time is
# in one that they call.
BRANCH_MIN = 0.02
CHAIN_MIN = 0.97

NOWHERE = ("[unknown]", "")

# In which function every interpreter of Python executes.
PYTHON_LOOP = "_PyEval_EvalFrameDefault"

# Not code of a target: the kernel, and addresses without a file.
OUTSIDE = {model.KERNEL, "[unknown]", ""}

Key = tuple[str, str]
Sampled = model.Profile | model.ProfileObservation


def wilson(count: float, total: float) -> tuple[float, float]:
    """The 95 % interval of a share of `count` in `total` samples."""
    if total <= 0:
        return 0.0, 1.0
    share = min(1.0, count / total)
    centre = share + Z * Z / (2 * total)
    half = Z * sqrt(share * (1 - share) / total + Z * Z / (4 * total * total))
    scale = 1 + Z * Z / total
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def summarise(profile: model.Profile) -> model.ProfileSummary:
    samples = profile.samples

    def thread(stack: model.SampledStack, _: Sequence[model.Frame]) -> Key:
        one = samples.threads[stack.thread]
        return one.name, f"{one.program} {one.process}"

    costs = _Costs(profile)
    native = costs.functions(samples.native)
    functions = costs.functions(samples.as_written)
    shown = [key for key, counts in functions.items() if counts.met >= model.SAMPLES_MIN]
    sampled_ns = None
    if samples.clock == "cpu-time":
        sampled_ns = samples.samples * samples.period / profile.requests
    rows = costs.counted(functions)
    return model.ProfileSummary(
        profile=profile,
        total_ns=profile.cpu_ns_per_request,
        sampled_ns=sampled_ns,
        parts=_parts(profile, costs),
        libraries=costs.rows(_count(profile, _library)),
        threads=costs.rows(_count(profile, thread)),
        functions=tuple(row for row in rows if (row.name, row.place) in shown),
        native=costs.counted(native) if samples.interpreted else (),
        tree=tuple(_tree(profile, costs)),
        lines=_lines(profile, costs),
        too_few=sum(row.ns for row in rows if (row.name, row.place) not in shown),
        remarks=tuple(_remarks(profile, sampled_ns)),
    )


def user_functions(profile: Sampled) -> tuple[model.ProfileRow, ...]:
    """The functions of the program and its libraries, most expensive first.

    Without the kernel's, and without those that have too few samples for a value. Interpreted
    functions have the time of the native code and system calls that they make.
    """
    rows = _all_functions(profile)
    return tuple(
        row
        for row in rows
        if row.samples >= model.SAMPLES_MIN and row.place not in OUTSIDE and row.ns
    )


def system_call(frames: Iterable[model.Frame]) -> str:
    """What the kernel was doing, by the functions of a stack; empty in user space."""
    names = [frame.function for frame in frames if frame.library == model.KERNEL]
    if not names:
        return ""
    inner = [name for name in reversed(names) if not ENTRY.fullmatch(name)]
    if not inner or EXIT.fullmatch(inner[0]):
        return "entry and exit of the kernel"
    if PAGE_FAULT.fullmatch(inner[0]):
        return "page faults"
    if INTERRUPT.fullmatch(inner[0]):
        return "interrupts"
    if not inner[0]:
        return "kernel"
    return CALL_PREFIX.sub("", inner[0], count=1)


@dataclass(slots=True)
class _Counts:
    """Samples of a function; and how often it, and it or a callee of it, was met."""

    own: float = 0.0
    count: int = 0
    with_callees: float = 0.0
    met: int = 0


class _Costs:
    def __init__(self, profile: Sampled) -> None:
        self._frames = profile.samples.frames
        # With samples of the kernel and of too short processes that there would have been.
        self.total = profile.samples.total(profile.cpu_ns)
        self._ns = profile.cpu_ns_per_request

    def ns(self, samples: float) -> float:
        """CPU time per request that this many samples stand for."""
        return samples / self.total * self._ns if self.total else 0.0

    def row(
        self, key: Key, count: float, samples: int, with_callees: float | None
    ) -> model.ProfileRow:
        """A row of a share `count / total` that rests on this many samples."""
        total = self.total
        # Interpreted functions were read less often than samples were taken.
        low, high = wilson(samples, total * samples / count if count else total)
        return model.ProfileRow(
            name=key[0],
            place=key[1],
            samples=samples,
            ns=self.ns(count),
            ns_low=low * self._ns,
            ns_high=high * self._ns,
            ns_with_callees=None if with_callees is None else self.ns(with_callees),
        )

    def rows(self, counts: Mapping[Key, int]) -> tuple[model.ProfileRow, ...]:
        return in_order(self.row(key, count, count, None) for key, count in counts.items())

    def functions(self, stacks: Iterable[model.WeightedStack]) -> dict[Key, _Counts]:
        """Samples by function; a recursive function counts once."""
        counts: dict[Key, _Counts] = defaultdict(_Counts)
        for stack in stacks:
            keys = [_key(self._frames[index]) for index in stack.frames] or [NOWHERE]
            counts[keys[0]].own += stack.samples
            counts[keys[0]].count += stack.count
            for key in set(keys):
                counts[key].with_callees += stack.samples
                counts[key].met += stack.count
        return counts

    def counted(self, counts: Mapping[Key, _Counts]) -> tuple[model.ProfileRow, ...]:
        return in_order(
            self.row(key, one.own, one.count, one.with_callees) for key, one in counts.items()
        )


def in_order(rows: Iterable[model.ProfileRow]) -> tuple[model.ProfileRow, ...]:
    """Most expensive first; of equals by name, so that the same samples give the same rows."""
    return tuple(sorted(rows, key=lambda row: (-row.ns, -(row.ns_with_callees or 0), row.name)))


def _key(frame: model.Frame) -> Key:
    return frame.name, frame.library


def _count(
    profile: model.Profile, key: Callable[[model.SampledStack, Sequence[model.Frame]], Key]
) -> Counter[Key]:
    """Samples by a property of a stack and its functions."""
    counts: Counter[Key] = Counter()
    for stack in profile.samples.stacks:
        counts[key(stack, [profile.samples.frames[index] for index in stack.frames])] += stack.count
    return counts


def _library(_: model.SampledStack, frames: Sequence[model.Frame]) -> Key:
    return (frames[0].library, "") if frames else NOWHERE


@dataclass(slots=True)
class _Node:
    """A function where it was called on one way, and what it called."""

    counts: _Counts = field(default_factory=_Counts)
    callees: dict[Key, "_Node"] = field(default_factory=dict)


def _tree(profile: model.Profile, costs: _Costs) -> Iterable[model.TreeRow]:
    root = _Node()
    for stack in profile.samples.as_written:
        node, before = root, None
        for index in reversed(stack.frames):
            key = _key(profile.samples.frames[index])
            # A function that calls itself is one.
            if key != before:
                node = node.callees.setdefault(key, _Node())
                node.counts.with_callees += stack.samples
                node.counts.met += stack.count
            before = key
        node.counts.own += stack.samples
    return _branches(root, 0, max(BRANCH_MIN * costs.total, 1.0), costs)


def _branches(node: _Node, depth: int, least: float, costs: _Costs) -> Iterable[model.TreeRow]:
    """Large branches; of functions that only call one another, the last."""
    order = sorted(node.callees.items(), key=lambda item: (-item[1].counts.with_callees, item[0]))
    for (name, place), callee in order:
        counts = callee.counts
        if counts.with_callees < least or counts.met < model.SAMPLES_MIN:
            return
        largest = max((one.counts.with_callees for one in callee.callees.values()), default=0.0)
        if largest >= CHAIN_MIN * counts.with_callees:
            yield from _branches(callee, depth, least, costs)
            continue
        yield model.TreeRow(
            depth=depth,
            name=name,
            place=place,
            samples=counts.met,
            ns=costs.ns(counts.own),
            ns_with_callees=costs.ns(counts.with_callees),
        )
        yield from _branches(callee, depth + 1, least, costs)


def _parts(profile: model.Profile, costs: _Costs) -> tuple[model.ProfileRow, ...]:
    counts = _count(profile, lambda _, frames: (system_call(frames) or USER_SPACE, ""))
    rows = list(costs.rows(counts))
    unseen = costs.total - profile.samples.samples
    if unseen > 0:
        name = TOO_SHORT if profile.samples.sees_kernel else KERNEL_UNSEEN
        rows.append(costs.row((name, ""), unseen, round(unseen), None))
    return in_order(rows)


def _lines(profile: model.Profile, costs: _Costs) -> tuple[model.ProfileRow, ...]:
    """Source lines of innermost functions, where they are known."""
    counts: dict[Key, _Counts] = defaultdict(_Counts)
    for stack in profile.samples.as_written:
        frame = profile.samples.frames[stack.frames[0]] if stack.frames else None
        if frame is not None and frame.file and frame.line:
            line = counts[f"{frame.file}:{frame.line}", frame.name]
            line.own += stack.samples
            line.count += stack.count
    return in_order(costs.row(key, one.own, one.count, None) for key, one in counts.items())


def _remarks(profile: model.Profile, sampled_ns: float | None) -> Iterable[str]:
    samples = profile.samples
    yield from samples.notes
    if not profile.is_reached:
        asked = profile.workload.rate_rps
        yield said("profile", "unreached", answered=profile.answered_rps, asked=asked)
    if samples.samples < model.SAMPLES_MIN:
        taken = f"{samples.samples} {plural(samples.samples, 'sample was', 'samples were')}"
        yield said("profile", "few-samples", samples=taken)
    if sampled_ns is not None and samples.sees_kernel:
        unsampled_ns = samples.unsampled * samples.period / profile.requests
        off = (sampled_ns + unsampled_ns) / profile.cpu_ns_per_request - 1
        if unsampled_ns:
            started = samples.processes_started
            yield said(
                "profile",
                "short-processes",
                part=samples.unsampled / samples.total(profile.cpu_ns),
                started=counted(started, "process was", "processes were"),
                each=started / profile.requests,
            )
        if abs(off) > AGREEMENT_MAX:
            both = {"sampled": sampled_ns, "counted": profile.cpu_ns_per_request}
            times = {name: micro_text(ns) for name, ns in both.items()}
            yield said("profile", "disagreement", **times, off=off)
    yield from _without_python(profile)
    without = _unnamed(profile)
    if without and samples.samples and sum(without.values()) > AGREEMENT_MAX * samples.samples:
        worst = max(sorted(without), key=lambda library: without[library])
        how = "install its debug symbols to see functions"
        if worst == "[jit]":
            how = "it was generated at run time, for which Node has the option --perf-basic-prof"
        part = sum(without.values()) / samples.samples
        yield said("profile", "no-symbols", part=part, library=worst, how=how)


def _without_python(profile: model.Profile) -> Iterable[str]:
    """How much of the CPU time has no functions of Python though Python ran, and why."""
    samples = profile.samples
    reasons: Counter[str] = Counter()
    for one in samples.interpreted:
        frame = samples.frames[one.frames[0]]
        if frame.library == model.PYTHON and frame.function.startswith(model.UNREAD):
            reasons[frame.function.removeprefix(model.UNREAD).removesuffix(")")] += one.count
    readings = sum(one.count for one in samples.interpreted)
    for reason, count in sorted(reasons.items()):
        yield said("profile", "unread", part=count / readings, reason=reason)
    loop = {at for at, frame in enumerate(samples.frames) if frame.function == PYTHON_LOOP}
    read = {one.thread for one in samples.interpreted}
    named = {at for at, frame in enumerate(samples.frames) if frame.library == model.PYTHON}
    without = sum(
        stack.count
        for stack in samples.stacks
        if stack.thread not in read
        and not loop.isdisjoint(stack.frames)
        and named.isdisjoint(stack.frames)
    )
    if without > AGREEMENT_MAX * samples.samples:
        yield said("profile", "unnamed-python", part=without / samples.samples)


def _unnamed(profile: model.Profile) -> Counter[str]:
    counts: Counter[str] = Counter()
    for stack in profile.samples.stacks:
        frame = profile.samples.frames[stack.frames[0]] if stack.frames else None
        if frame is not None and not frame.function:
            counts[frame.library] += stack.count
    return counts


# A smaller difference is not divided: parts of nearly nothing are of any size.
DIFFERENCE_MIN = 0.01


# Where the difference of two profiles comes from. Each function's CPU time per request is a share
# of samples times a measured time, so the variance of a difference is the sum of two binomial ones;
# 95 % intervals are normal (z = 1.96).


def difference(
    first: model.ProfileSummary, second: model.ProfileSummary
) -> model.ProfileDifference:
    both = (first.profile, second.profile)
    whole = second.total_ns - first.total_ns
    is_divisible = abs(whole) >= DIFFERENCE_MIN * first.total_ns
    divisor = whole if is_divisible else None
    functions = _rows(both, [_all_functions(profile) for profile in both], divisor)
    return model.ProfileDifference(
        first=first,
        second=second,
        difference_ns=whole,
        parts=_rows(both, [first.parts, second.parts], divisor),
        libraries=_rows(both, [first.libraries, second.libraries], divisor),
        functions=functions,
        unexplained_ns=whole - sum(row.difference_ns for row in functions if row.is_certain),
    )


def _all_functions(profile: Sampled) -> tuple[model.ProfileRow, ...]:
    """All functions, also those with few samples: the other profile may have many of them."""
    costs = _Costs(profile)
    return costs.counted(costs.functions(profile.samples.as_written))


def _rows(
    profiles: tuple[model.Profile, model.Profile],
    tables: list[tuple[model.ProfileRow, ...]],
    whole: float | None,
) -> tuple[model.DifferenceRow, ...]:
    known = [{(row.name, row.place): row for row in table} for table in tables]
    both = list(zip(known, map(_Costs, profiles), strict=True))
    found = []
    for key in dict.fromkeys(key for rows in known for key in rows):
        # No sample is not no time: its interval reaches from zero to some.
        pair = [rows.get(key) or cost.row(key, 0, 0, None) for rows, cost in both]
        if max(row.samples for row in pair) >= model.SAMPLES_MIN:
            found.append(_row(key, pair[0], pair[1], whole))
    return tuple(sorted(found, key=lambda row: (-abs(row.difference_ns), row.name, row.place)))


def _row(
    key: Key, first: model.ProfileRow, second: model.ProfileRow, whole: float | None
) -> model.DifferenceRow:
    change = second.ns - first.ns
    error = Z * (_variance(first) + _variance(second)) ** 0.5
    return model.DifferenceRow(
        name=key[0],
        place=key[1],
        ns=(first.ns, second.ns),
        ns_high=(first.ns_high, second.ns_high),
        samples=(first.samples, second.samples),
        difference_ns=change,
        low_ns=change - error,
        high_ns=change + error,
        part=change / whole if whole else None,
    )


def _variance(row: model.ProfileRow) -> float:
    """From the width of Wilson's interval, which is right for few samples too."""
    return ((row.ns_high - row.ns_low) / (2 * Z)) ** 2
