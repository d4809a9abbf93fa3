"""Messages between the lab and an agent, and how a stream of bytes is divided into them. No I/O.

A message is its length in four bytes, most significant first, and MessagePack. The agent speaks
first, with a challenge that the lab answers with the token. Then each request has the next number,
and one reply with the same one.
"""

import hashlib
import hmac
import struct
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from jissoku.errors import InputError, JissokuError, TargetEnded, TargetError
from jissoku.fleet.campaign_wire import OtherRequest
from jissoku.measure.client import ProbeError
from jissoku.measure.observation import HostObservation
from jissoku.measure.sampler import ProfilerError
from jissoku.model import (
    Capability,
    ConfigFile,
    Knob,
    Machine,
    Origin,
    Recipe,
    StartCommand,
    Transport,
    UnavailableTarget,
    Workload,
)
from jissoku.model.experiment import ConfigChange, Microbenchmark
from jissoku.model.explanation import ProcessInfo, ThreadUsage
from jissoku.system.strace import Call
from jissoku.targets.launch import ListensElsewhere

# Changes with every change of a message.
PROTOCOL = 7

HEAD = struct.Struct("!I")

# The largest message before a client has proven that it has the token, and after that.
HELLO_BYTES_MAX = 4096
MESSAGE_BYTES_MAX = 8 * 1024 * 1024

NONCE_BYTES = 32


class WireError(JissokuError):
    """Bytes that are no message of this protocol; the connection has to be closed."""


class Frames:
    """Divides a stream into messages, however its bytes arrive."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yields the messages that end in `data`; WireError for one that is too long.

        No more than the length of a message is kept of one that is too long.
        """
        self._rest += data
        while len(self._rest) >= HEAD.size:
            (size,) = HEAD.unpack_from(self._rest)
            if size > self.bytes_max:
                self._rest = self._rest[: HEAD.size]
                raise WireError(f"a message of {size:,} bytes; {self.bytes_max:,} are allowed")
            if len(self._rest) < HEAD.size + size:
                return
            message = bytes(self._rest[HEAD.size : HEAD.size + size])
            del self._rest[: HEAD.size + size]
            yield message


def framed(message: bytes) -> bytes:
    return HEAD.pack(len(message)) + message


class Greeting(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's first message: what it is, and its challenge."""

    protocol: int
    version: str
    nonce: bytes


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """The client's first message; `proof` is an HMAC of the challenge with the token."""

    proof: bytes
    boot: str
    purpose: str = ""


def proof_of(token: bytes, nonce: bytes) -> bytes:
    return hmac.new(token, b"jissoku agent\0" + nonce, hashlib.sha256).digest()


def is_proof(token: bytes, nonce: bytes, given: bytes) -> bool:
    return hmac.compare_digest(proof_of(token, nonce), given)


class AskTime(msgspec.Struct, frozen=True, tag="time"):
    """The agent's clock."""


class Prepare(msgspec.Struct, frozen=True, kw_only=True, tag="prepare"):
    """A target to build, by the name of its recipe; `version` empty: the installed one.

    `sent` is the recipe if it is none of the installation; see `Preparations`.
    """

    recipe: str
    version: str = ""
    sent: Recipe | None = None


class PrepareCommand(msgspec.Struct, frozen=True, kw_only=True, tag="command"):
    """A command of the agent's host, as `NAME=COMMAND`; only if its operator allows commands."""

    text: str


class PrepareUrl(msgspec.Struct, frozen=True, kw_only=True, tag="url"):
    """A server that runs on the agent's host already; only if its operator has named it."""

    name: str
    url: str


class AskCommits(msgspec.Struct, frozen=True, kw_only=True, tag="commits"):
    """The commits after `good` up to `bad` of the repository in the agent's folder."""

    good: str
    bad: str


class BeginCheckout(msgspec.Struct, frozen=True, kw_only=True, tag="checkout"):
    """Builds a commit in a folder of its own; only if the operator allows commands."""

    commit: str
    build: str


class PrepareCheckout(msgspec.Struct, frozen=True, kw_only=True, tag="built"):
    """A command, as `NAME=COMMAND`, in the folder of a commit that was built."""

    number: int
    text: str


class EndCheckout(msgspec.Struct, frozen=True, kw_only=True, tag="removed"):
    """Removes a commit that was built."""

    number: int


class PrepareNamed(msgspec.Struct, frozen=True, kw_only=True, tag="named"):
    """A target that was prepared, with the names of its runtime's functions for a sampler."""

    prepared: int


class PrepareChanged(msgspec.Struct, frozen=True, kw_only=True, tag="changed"):
    """A target that was prepared, as an experiment changes it; see `ServerHost.with_changes`."""

    prepared: int
    changes: tuple[ConfigChange, ...] = ()
    upstream: Transport = Transport.TCP


class AskKnobs(msgspec.Struct, frozen=True, kw_only=True, tag="knobs"):
    """Which knobs a prepared target has: of a recipe some of its own, of a command those that fit.

    `names` are those of the recipe.
    """

    prepared: int
    names: tuple[str, ...] = ()


class PrepareSwitched(msgspec.Struct, frozen=True, kw_only=True, tag="switched"):
    """A target that was prepared with some of its knobs, which were asked for before."""

    prepared: int
    knobs: tuple[str, ...]


class PrepareBenchmark(msgspec.Struct, frozen=True, kw_only=True, tag="benchmark"):
    """A benchmark of an experiment; `prepared` is its recipe's target, if it has one."""

    benchmark: Microbenchmark
    prepared: int | None = None


class RunBenchmark(msgspec.Struct, frozen=True, kw_only=True, tag="round"):
    """One round of a benchmark that was prepared, on the cores of the targets."""

    number: int


class ChooseCores(msgspec.Struct, frozen=True, kw_only=True, tag="cores"):
    """The cores of targets as a list such as `0,2-3`; None: the agent chooses."""

    given: str | None = None


class AwaitIdleCores(msgspec.Struct, frozen=True, kw_only=True, tag="idle"):
    """Waits until the cores of the targets, or `cores` of them, are idle."""

    cores: tuple[int, ...] = ()


class Start(msgspec.Struct, frozen=True, kw_only=True, tag="start"):
    """A prepared target to start; `workers` None: one on each of its cores.

    `cores` are some of those of the targets; empty: all of them.
    """

    prepared: int
    workload: Workload
    seed: int
    workers: int | None = None
    cores: tuple[int, ...] = ()


class AwaitReady(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """Waits on the agent's host until a target answers."""

    target: int
    workload: Workload


class AskState(msgspec.Struct, frozen=True, kw_only=True, tag="state"):
    """Whether a target runs, after waiting for its end for at most this long."""

    target: int
    limit_s: float = 0.0


class AskCode(msgspec.Struct, frozen=True, kw_only=True, tag="code"):
    """Whether a target has code that was made at run time."""

    target: int


class Stop(msgspec.Struct, frozen=True, kw_only=True, tag="stop"):
    """Ends a target."""

    target: int


class Observe(msgspec.Struct, frozen=True, kw_only=True, tag="observe"):
    """Begins to observe these targets, and the cores that they may use; empty: all of them."""

    targets: tuple[int, ...]
    cores: tuple[int, ...] = ()


class EndObservation(msgspec.Struct, frozen=True, kw_only=True, tag="observed"):
    """Ends it; `at_ns` are instants of the agent's clock whose counters are wanted, in order."""

    at_ns: tuple[int, ...]


class AskMemory(msgspec.Struct, frozen=True, kw_only=True, tag="memory"):
    """The resident memory of a target."""

    target: int


class AskThreads(msgspec.Struct, frozen=True, kw_only=True, tag="threads"):
    """What the threads of a target have used so far."""

    target: int


class AskProcesses(msgspec.Struct, frozen=True, kw_only=True, tag="processes"):
    """The programs of a target."""

    target: int


class AskCosts(msgspec.Struct, frozen=True, tag="costs"):
    """What system calls cost on the agent's host."""


class BeginTrace(msgspec.Struct, frozen=True, kw_only=True, tag="trace"):
    """Begins to trace a target's system calls; this and the next ones end what was begun before."""

    target: int


class BeginCounts(msgspec.Struct, frozen=True, kw_only=True, tag="count"):
    """Begins to count a target's system calls."""

    target: int


class BeginWaits(msgspec.Struct, frozen=True, kw_only=True, tag="waits"):
    """Looks at what a target's threads wait for at rest, and from the next window on."""

    target: int


class BeginSampling(msgspec.Struct, frozen=True, kw_only=True, tag="sample"):
    """Begins to sample a target's CPU time, for some time after `limit_s` at most."""

    target: int
    frequency: int
    limit_s: float


class AtWindow(msgspec.Struct, frozen=True, kw_only=True, tag="window"):
    """The window opens or closes, for what was begun."""

    is_open: bool


class EndTrace(msgspec.Struct, frozen=True, tag="traced"):
    """Ends it, and asks for the calls."""


class EndCounts(msgspec.Struct, frozen=True, tag="counted"):
    """Ends it, and asks for the numbers of calls."""


class EndWaits(msgspec.Struct, frozen=True, tag="waited"):
    """Ends it, and asks where the threads were met."""


class EndSampling(msgspec.Struct, frozen=True, tag="sampled"):
    """Ends it, and asks for the samples of the window."""


Request = (
    AskTime
    | Prepare
    | PrepareCommand
    | PrepareUrl
    | AskCommits
    | BeginCheckout
    | PrepareCheckout
    | EndCheckout
    | PrepareNamed
    | PrepareChanged
    | AskKnobs
    | PrepareSwitched
    | PrepareBenchmark
    | RunBenchmark
    | ChooseCores
    | AwaitIdleCores
    | Start
    | AwaitReady
    | AskState
    | AskCode
    | Stop
    | Observe
    | EndObservation
    | AskMemory
    | AskThreads
    | AskProcesses
    | AskCosts
    | BeginTrace
    | BeginCounts
    | BeginWaits
    | BeginSampling
    | AtWindow
    | EndTrace
    | EndCounts
    | EndWaits
    | EndSampling
    | OtherRequest
)


class Numbered(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    request: Request


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a right token: the properties of the agent's host."""

    machine: Machine
    boot: str
    host: str


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A target that can be started there, as a record describes it; no paths of that host.

    `start` None: it runs already, and is not started. `program` is the name of its program's file.
    """

    handle: int
    name: str
    origin: Origin
    version: str
    capabilities: tuple[Capability, ...]
    description: str
    limitations: str
    binary_sha256: str
    source_sha256: str
    start: StartCommand | None
    config: tuple[ConfigFile, ...]
    compiles: bool | None
    program: str = ""


class TimeThere(msgspec.Struct, frozen=True, kw_only=True):
    at_ns: int


class ChosenCores(msgspec.Struct, frozen=True, kw_only=True):
    """The cores of the targets, and those of the agent itself."""

    server: tuple[int, ...]
    agent: tuple[int, ...]


class IdleFraction(msgspec.Struct, frozen=True, kw_only=True):
    fraction: float | None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    is_true: bool


class PrepareResult(msgspec.Struct, frozen=True, kw_only=True):
    prepared: Prepared | None = None
    unavailable: UnavailableTarget | None = None


class Knobs(msgspec.Struct, frozen=True, kw_only=True):
    """Those that have an effect there, and why others have none.

    `is_known` False: it is a command of which no knob is known.
    """

    knobs: tuple[Knob, ...] = ()
    skipped: dict[str, str] = msgspec.field(default_factory=dict)
    is_known: bool = True


class Commits(msgspec.Struct, frozen=True, kw_only=True):
    """`good` by its full name, those after it, the oldest first, and the subjects of all."""

    good: str
    commits: tuple[str, ...]
    subjects: dict[str, str]


class CheckoutNumber(msgspec.Struct, frozen=True, kw_only=True):
    number: int


class BenchmarkNumber(msgspec.Struct, frozen=True, kw_only=True):
    number: int


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What a round of a benchmark has printed: its values by their names."""

    values: dict[str, float]


class Started(msgspec.Struct, frozen=True, kw_only=True):
    target: int
    port: int
    is_tls: bool


class State(msgspec.Struct, frozen=True, kw_only=True):
    is_alive: bool
    exit_description: str
    output_tail: str
    output_bytes: int


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent has read of its host, at the instants that were asked for.

    Lists by arm have one list of values for each. None: this kernel does not provide it.

    Attributes:
        cpu_ns: CPU time so far of the processes of each arm that were there at the beginning.
        beyond_ns: CPU time of further processes of each arm; None: a process ended unnoticed.
        wait_ns: How long their threads had no core; `runs`: how often one of them got one.
        idle_ns: Idle time of the targets' cores together; `kernel_ns`: CPU time of the kernel's
            own threads.
        gap_ns: The longest time between two readings of CPU time beside one of the instants.
        cores: The number of the targets' cores; 0 if the agent itself may run on one of them.
    """

    host: HostObservation
    cpu_ns: tuple[tuple[int, ...], ...]
    beyond_ns: tuple[int | None, ...]
    wait_ns: tuple[tuple[int, ...], ...] | None
    runs: tuple[tuple[int, ...], ...] | None
    idle_ns: tuple[int, ...]
    kernel_ns: tuple[int, ...]
    gap_ns: int
    cores: int


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    rss_bytes: int


class Threads(msgspec.Struct, frozen=True, kw_only=True):
    threads: tuple[ThreadUsage, ...]


class Processes(msgspec.Struct, frozen=True, kw_only=True):
    processes: tuple[ProcessInfo, ...]


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """Nanoseconds per call, by its name."""

    ns: dict[str, float]


class Traced(msgspec.Struct, frozen=True, kw_only=True):
    """As `jissoku.measure.inspection.Trace`."""

    calls: tuple[Call, ...]
    peers: dict[str, str]


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """The number of calls by their names."""

    calls: dict[str, int]


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request: its result, or what has failed; `hint` is what a probe needs."""

    number: int
    result: msgspec.Raw = msgspec.Raw(b"\xc0")
    failure: str = ""
    kind: str = ""
    stderr: str = ""
    hint: str = ""


# Errors that keep their kind on the way.
KINDS: dict[str, type[JissokuError]] = {
    "input": InputError,
    "ended": TargetEnded,
    "elsewhere": ListensElsewhere,
    "target": TargetError,
    "probe": ProbeError,
    "profiler": ProfilerError,
}

Message = TypeVar("Message")


def encoded(message: Any) -> bytes:
    return msgspec.msgpack.encode(message)


def decoded(data: bytes, kind: type[Message]) -> Message:
    """WireError for anything but a message of this kind."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise WireError(f"a message that is no {kind.__name__}: {error}") from error


def failure(number: int, error: JissokuError) -> Reply:
    kinds = [name for name, kind in KINDS.items() if isinstance(error, kind)]
    stderr = error.stderr if isinstance(error, TargetError) else ""
    hint = error.remedy if isinstance(error, ProbeError) else ""
    kind = (kinds or [""])[0]
    return Reply(number=number, failure=str(error), kind=kind, stderr=stderr, hint=hint)


def error_of(reply: Reply, where: str) -> JissokuError:
    """The error of a reply; a sentence about a target stays as it is.

    Only a refusal names the agent: what has failed is recorded, and records name no host.
    """
    kind = KINDS.get(reply.kind)
    if kind is not None and issubclass(kind, TargetError):
        return kind(reply.failure, stderr=reply.stderr)
    if kind is InputError:
        return InputError(f"{where}: {reply.failure}")
    failure = f"on the agent's host: {reply.failure}"
    if kind is ProbeError:
        return ProbeError(failure, result=reply.hint)
    return (kind or JissokuError)(failure)
