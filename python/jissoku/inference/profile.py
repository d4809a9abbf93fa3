"""From samples to CPU time per request: shares of samples, times the CPU time that was measured.

The load generator measures the CPU time of the window by the kernel's accounting; samples only
divide it. Intervals are those of counts: Wilson's score interval of a share (Wilson 1927).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import sqrt

from jissoku.model.profile import (
    KERNEL,
    DifferenceRow,
    Frame,
    Profile,
    ProfileDifference,
    ProfileRow,
    ProfileSummary,
    SampledStack,
)
from jissoku.model.profile_observation import ProfileObservation
from jissoku.model.wording import plural

# Normal quantile of a two-sided interval of 95 %.
Z = 1.959964

# With fewer samples an interval reaches from a third to three times the value.
SAMPLES_MIN = 10

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

# Not code of a target: the kernel, and addresses without a file.
OUTSIDE = {KERNEL, "[unknown]", ""}

Key = tuple[str, str]
Sampled = Profile | ProfileObservation


def wilson(count: float, total: float) -> tuple[float, float]:
    """The 95 % interval of a share of `count` in `total` samples."""
    if total <= 0:
        return 0.0, 1.0
    share = min(1.0, count / total)
    centre = share + Z * Z / (2 * total)
    half = Z * sqrt(share * (1 - share) / total + Z * Z / (4 * total * total))
    scale = 1 + Z * Z / total
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def summarise(profile: Profile) -> ProfileSummary:
    samples = profile.samples
    total = sample_total(profile)
    costs = _Costs(profile, total)
    native_self, native_with = _count_functions(profile, profile.samples.stacks)
    native = costs.rows(native_self, native_with)
    functions = _functions(profile, costs) if samples.interpreted else native
    sampled_ns = None
    if samples.clock == "cpu-time":
        sampled_ns = samples.samples * samples.period / profile.requests
    return ProfileSummary(
        profile=profile,
        total_ns=profile.cpu_ns_per_request,
        sampled_ns=sampled_ns,
        parts=_parts(profile, costs),
        libraries=costs.rows(_count(profile, lambda frame: (frame.library, ""))),
        threads=costs.rows(_threads(profile)),
        functions=tuple(row for row in functions if row.samples >= SAMPLES_MIN),
        native=native if samples.interpreted else (),
        lines=costs.rows(_lines(profile)),
        too_few=sum(row.ns for row in functions if row.samples < SAMPLES_MIN),
        remarks=tuple(_remarks(profile, sampled_ns)),
    )


def user_functions(profile: Sampled) -> tuple[ProfileRow, ...]:
    """The functions of the program and its libraries, most expensive first.

    Without the kernel's, and without those that have too few samples for a value. Interpreted
    functions have the time of the native code and system calls that they make.
    """
    rows = _functions(profile, _Costs(profile, sample_total(profile)))
    return tuple(
        row for row in rows if row.samples >= SAMPLES_MIN and row.place not in OUTSIDE and row.ns
    )


def sample_total(profile: Sampled) -> float:
    """All samples there would have been, with those of the kernel and of too short processes."""
    return profile.samples.total(profile.cpu_ns)


def system_call(frames: Iterable[Frame]) -> str:
    """What the kernel was doing, by the functions of a stack; empty in user space."""
    names = [frame.function for frame in frames if frame.library == KERNEL]
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


class _Costs:
    """Turns counts of one profile into rows."""

    def __init__(self, profile: Sampled, total: float) -> None:
        self._total = total
        self._ns = profile.cpu_ns_per_request

    def row(self, key: Key, count: float, samples: int, with_callees: float | None) -> ProfileRow:
        """A row of a share `count / total` that rests on this many samples."""
        total = self._total
        share = count / total if total else 0.0
        # Of interpreted functions fewer readings were taken than samples.
        low, high = wilson(samples, total * samples / count if count else total)
        return ProfileRow(
            name=key[0],
            place=key[1],
            samples=samples,
            ns=share * self._ns,
            ns_low=low * self._ns,
            ns_high=high * self._ns,
            ns_with_callees=None
            if with_callees is None or not total
            else with_callees / total * self._ns,
        )

    def rows(
        self, counts: Mapping[Key, int], with_callees: Mapping[Key, int] | None = None
    ) -> tuple[ProfileRow, ...]:
        """Rows of counts of samples, most expensive first."""
        keys = set(counts) | set(with_callees or ())
        rows = [
            self.row(
                key,
                counts.get(key, 0),
                counts.get(key, 0),
                with_callees.get(key, 0) if with_callees is not None else None,
            )
            for key in keys
        ]
        return in_order(rows)


def in_order(rows: Iterable[ProfileRow]) -> tuple[ProfileRow, ...]:
    """Most expensive first; of equals by name, so that the same samples give the same rows."""
    return tuple(sorted(rows, key=lambda row: (-row.ns, -(row.ns_with_callees or 0), row.name)))


def _frames(profile: Sampled, stack: SampledStack) -> list[Frame]:
    return [profile.samples.frames[index] for index in stack.frames]


def _key(frame: Frame) -> Key:
    return frame.name, frame.library


def _count(profile: Profile, key: Callable[[Frame], Key]) -> Counter[Key]:
    """Samples by a property of the innermost function."""
    counts: Counter[Key] = Counter()
    for stack in profile.samples.stacks:
        frames = _frames(profile, stack)
        counts[key(frames[0]) if frames else ("[unknown]", "")] += stack.count
    return counts


def _count_functions(
    profile: Sampled, stacks: Iterable[SampledStack]
) -> tuple[Counter[Key], Counter[Key]]:
    """Samples by function, and the same with callees; a recursive function counts once."""
    own: Counter[Key] = Counter()
    with_callees: Counter[Key] = Counter()
    for stack in stacks:
        keys = [_key(frame) for frame in _frames(profile, stack)] or [("[unknown]", "")]
        own[keys[0]] += stack.count
        for key in set(keys):
            with_callees[key] += stack.count
    return own, with_callees


def _functions(profile: Sampled, costs: _Costs) -> tuple[ProfileRow, ...]:
    """Interpreted functions of threads that were read, native ones of all others."""
    samples = profile.samples
    read = {stack.thread for stack in samples.interpreted}
    unread = [stack for stack in samples.stacks if stack.thread not in read]
    own, with_callees = _count_functions(profile, unread)
    rows = list(costs.rows(own, with_callees))
    by_thread: dict[int, int] = defaultdict(int)
    for stack in samples.stacks:
        by_thread[stack.thread] += stack.count
    shares: dict[Key, list[float]] = defaultdict(lambda: [0.0, 0, 0.0])
    for thread in sorted(read):
        mine = [stack for stack in samples.interpreted if stack.thread == thread]
        readings = sum(stack.count for stack in mine)
        weight = by_thread[thread] / readings if readings else 0.0
        for one in mine:
            keys = [_key(samples.frames[index]) for index in one.frames]
            shares[keys[0]][0] += one.count * weight
            shares[keys[0]][1] += one.count
            for key in set(keys):
                shares[key][2] += one.count * weight
    rows += [
        costs.row(key, count, int(readings), inclusive)
        for key, (count, readings, inclusive) in shares.items()
    ]
    return in_order(rows)


def _parts(profile: Profile, costs: _Costs) -> tuple[ProfileRow, ...]:
    counts: Counter[Key] = Counter()
    for stack in profile.samples.stacks:
        counts[system_call(_frames(profile, stack)) or USER_SPACE, ""] += stack.count
    rows = list(costs.rows(counts))
    unseen = sample_total(profile) - profile.samples.samples
    if unseen > 0:
        name = TOO_SHORT if profile.samples.sees_kernel else KERNEL_UNSEEN
        rows.append(costs.row((name, ""), unseen, round(unseen), None))
    return in_order(rows)


def _threads(profile: Profile) -> Counter[Key]:
    counts: Counter[Key] = Counter()
    for stack in profile.samples.stacks:
        thread = profile.samples.threads[stack.thread]
        counts[thread.name, f"{thread.program} {thread.process}"] += stack.count
    return counts


def _lines(profile: Profile) -> Counter[Key]:
    """Source lines of innermost functions, where there is debug information."""
    counts: Counter[Key] = Counter()
    for stack in profile.samples.stacks:
        frames = _frames(profile, stack)
        if frames and frames[0].file and frames[0].line:
            counts[f"{frames[0].file}:{frames[0].line}", frames[0].name] += stack.count
    return counts


def _remarks(profile: Profile, sampled_ns: float | None) -> Iterable[str]:
    samples = profile.samples
    yield from samples.notes
    if samples.samples < SAMPLES_MIN:
        yield (
            f"Only {samples.samples} {plural(samples.samples, 'sample was', 'samples were')} taken:"
            " nothing can be said of any function."
        )
    if sampled_ns is not None and samples.sees_kernel:
        unsampled_ns = samples.unsampled * samples.period / profile.requests
        off = (sampled_ns + unsampled_ns) / profile.cpu_ns_per_request - 1
        if unsampled_ns:
            yield (
                f"{samples.unsampled / sample_total(profile):.0%} of the CPU time has no samples,"
                " because processes ended within a millisecond of CPU time;"
                f" {samples.processes_started:,}"
                f" {plural(samples.processes_started, 'process was', 'processes were')} started,"
                f" {samples.processes_started / profile.requests:.2g} per request."
            )
        if abs(off) > AGREEMENT_MAX:
            yield (
                f"Samples add up to {sampled_ns / 1e3:,.1f} µs per request and the kernel's"
                f" accounting to {profile.cpu_ns_per_request / 1e3:,.1f} µs ({off:+.0%}): shares"
                " may be off by as much."
            )
    without = _unnamed(profile)
    if without and samples.samples and sum(without.values()) > AGREEMENT_MAX * samples.samples:
        worst = max(sorted(without), key=lambda library: without[library])
        yield (
            f"{sum(without.values()) / samples.samples:.0%} of the samples are in code without"
            f" symbols, most in {worst}: install its debug symbols to see functions."
        )


def _unnamed(profile: Profile) -> Counter[str]:
    counts: Counter[str] = Counter()
    for stack in profile.samples.stacks:
        frames = _frames(profile, stack)
        if frames and not frames[0].function:
            counts[frames[0].library] += stack.count
    return counts


# A smaller difference is not divided: parts of nearly nothing are of any size.
DIFFERENCE_MIN = 0.01


# Where the difference of two profiles comes from. Each function's CPU time per request is a share
# of samples times a measured time, so the variance of a difference is the sum of two binomial ones;
# 95 % intervals are normal (z = 1.96).


def difference(first: ProfileSummary, second: ProfileSummary) -> ProfileDifference:
    """The second less the first, by part, library and function."""
    whole = second.total_ns - first.total_ns
    is_divisible = abs(whole) >= DIFFERENCE_MIN * first.total_ns
    divisor = whole if is_divisible else None
    functions = _rows(first.functions, second.functions, divisor)
    return ProfileDifference(
        first=first,
        second=second,
        difference_ns=whole,
        parts=_rows(first.parts, second.parts, divisor),
        libraries=_rows(first.libraries, second.libraries, divisor),
        functions=functions,
        unexplained_ns=whole - sum(row.difference_ns for row in functions if row.is_certain),
    )


def _rows(
    first: Sequence[ProfileRow], second: Sequence[ProfileRow], whole: float | None
) -> tuple[DifferenceRow, ...]:
    left = {(row.name, row.place): row for row in first}
    right = {(row.name, row.place): row for row in second}
    rows = [_row(key, left.get(key), right.get(key), whole) for key in {**left, **right}]
    return tuple(sorted(rows, key=lambda row: (-abs(row.difference_ns), row.name, row.place)))


def _row(
    key: Key, first: ProfileRow | None, second: ProfileRow | None, whole: float | None
) -> DifferenceRow:
    before, after = (row.ns if row else 0.0 for row in (first, second))
    change = after - before
    error = Z * (_variance(first) + _variance(second)) ** 0.5
    return DifferenceRow(
        name=key[0],
        place=key[1],
        ns=(before, after),
        difference_ns=change,
        low_ns=change - error,
        high_ns=change + error,
        part=change / whole if whole else None,
    )


def _variance(row: ProfileRow | None) -> float:
    """From the width of Wilson's interval, which is right for few samples too."""
    return ((row.ns_high - row.ns_low) / (2 * Z)) ** 2 if row else 0.0
