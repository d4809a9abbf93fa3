"""Profiles for other tools: collapsed stacks, and pprof.

Weights are nanoseconds of CPU time per request, so that two profiles can be compared independently
of their rates and lengths. The pprof format is `profile.proto` of github.com/google/pprof, written
here field by field (protobuf: varints and length-delimited fields).
"""

import gzip
from collections import Counter
from collections.abc import Iterator

from jissoku.model.profile import KERNEL, Frame, Profile

# Unit of weights, so that stacks below a nanosecond per request do not vanish by rounding.
SCALE = 1000


def collapsed(profile: Profile) -> str:
    """Lines `program;thread;outer;inner WEIGHT`, in thousandths of nanoseconds per request."""
    return _lines(_weights(profile, interpreted=False))


def collapsed_interpreted(profile: Profile) -> str:
    """The same of interpreted functions; empty where no interpreter was read."""
    return _lines(_weights(profile, interpreted=True)) if profile.samples.interpreted else ""


def collapsed_difference(first: Profile, second: Profile) -> str:
    """Lines `outer;inner FIRST SECOND`, as differential flame graphs take them."""
    both = bool(first.samples.interpreted and second.samples.interpreted)
    left, right = (_functions_only(_weights(one, interpreted=both)) for one in (first, second))
    keys = sorted(set(left) | set(right))
    return "".join(f"{';'.join(key)} {left[key]} {right[key]}\n" for key in keys)


def pprof(profile: Profile) -> bytes:
    """A compressed pprof profile: samples, and CPU time in nanoseconds, of the whole window."""
    return gzip.compress(_Pprof(profile).encode(), mtime=0)


Stack = tuple[str, ...]


def _lines(weights: Counter[Stack]) -> str:
    return "".join(f"{';'.join(stack)} {weights[stack]}\n" for stack in sorted(weights))


def _functions_only(weights: Counter[Stack]) -> Counter[Stack]:
    """Without program and thread, whose names differ between two targets."""
    merged: Counter[Stack] = Counter()
    for stack, weight in weights.items():
        merged[stack[2:] or stack] += weight
    return merged


def _weights(profile: Profile, *, interpreted: bool) -> Counter[Stack]:
    samples = profile.samples
    weights: Counter[Stack] = Counter()
    if interpreted:
        readings: Counter[int] = Counter()
        for one in samples.interpreted:
            readings[one.thread] += one.count
        taken = {stack.thread: 0 for stack in samples.interpreted}
        for stack in samples.stacks:
            if stack.thread in taken:
                taken[stack.thread] += stack.count
        for one in samples.interpreted:
            names = [_label(samples.frames[index]) for index in reversed(one.frames)]
            part = taken[one.thread] / max(1, samples.samples) / readings[one.thread]
            weight = one.count * part * profile.cpu_ns_per_request * SCALE
            thread = samples.threads[one.thread]
            weights[thread.program or "?", thread.name or "?", *names] += round(weight)
        return weights
    whole = max(1, samples.samples)
    for stack in samples.stacks:
        thread = samples.threads[stack.thread]
        names = [_label(samples.frames[index]) for index in reversed(stack.frames)]
        weight = stack.count / whole * profile.cpu_ns_per_request * SCALE
        weights[thread.program or "?", thread.name or "?", *names] += round(weight)
    return weights


def _label(frame: Frame) -> str:
    """A function, marked as flame graphs colour it: `_[k]` for the kernel."""
    if frame.library == KERNEL:
        return f"{frame.name}_[k]"
    return frame.function or f"[{frame.library.strip('[]')}]"


class _Pprof:
    """`message Profile`; tables grow while samples are written."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._strings = {"": 0}
        self._functions: dict[tuple[str, str], int] = {}
        self._locations: dict[int, int] = {}

    def encode(self) -> bytes:
        samples = self._profile.samples
        period_ns = samples.period if samples.clock == "cpu-time" else 1
        values = [self._value_type("samples", "count"), self._value_type("cpu", "nanoseconds")]
        body = b"".join(_message(1, value) for value in values)
        for stack in samples.stacks:
            ids = [self._location(index) for index in stack.frames]
            packed = _message(1, b"".join(map(_varint, ids)))
            numbers = _varint(stack.count) + _varint(stack.count * period_ns)
            body += _message(2, packed + _message(2, numbers))
        for index, number in self._locations.items():
            frame = samples.frames[index]
            line = _integer(1, self._function(frame)) + _integer(2, frame.line)
            body += _message(4, _integer(1, number) + _message(4, line))
        for (name, file), number in self._functions.items():
            fields = _integer(1, number) + _integer(2, self._string(name))
            fields += _integer(3, self._string(name)) + _integer(4, self._string(file))
            body += _message(5, fields)
        period = _message(11, self._value_type("cpu", "nanoseconds"))
        rest = _integer(10, samples.duration_ns) + period + _integer(12, period_ns)
        return body + b"".join(_message(6, text.encode()) for text in self._strings) + rest

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _value_type(self, kind: str, unit: str) -> bytes:
        return _integer(1, self._string(kind)) + _integer(2, self._string(unit))

    def _location(self, index: int) -> int:
        return self._locations.setdefault(index, len(self._locations) + 1)

    def _function(self, frame: Frame) -> int:
        key = (_label(frame), frame.file or frame.library)
        return self._functions.setdefault(key, len(self._functions) + 1)


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the highest bit says that more follow."""
    return bytes(_septets(value))


def _septets(value: int) -> Iterator[int]:
    while value > 0x7F:
        yield value & 0x7F | 0x80
        value >>= 7
    yield value


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content
