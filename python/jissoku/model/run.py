"""What was asked of a run: workload, arms, machine and method; and the noise of machines."""

import re
from enum import StrEnum

import msgspec

from jissoku.request import AnyRequest

# What a WebSocket sends if nothing else is asked for.
MESSAGE = b"a message of thirty-two bytes..."


class ConnectionMode(StrEnum):
    KEEP_ALIVE = "keep-alive"
    CLOSE = "close"


class Transport(StrEnum):
    TCP = "tcp"
    UNIX = "unix"


class Match(StrEnum):
    """What of a response, beside status and content type, has to match the target's first one.

    The keys and types of JSON are compared in the responses that the lab reads before each trial;
    under load those have only their status verified.
    """

    BYTES = "bytes"
    JSON = "json"
    LENGTH = "length"
    STATUS = "status"


class RawRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A complete request, byte for byte; `{PATH}` and `{HOST}` are replaced by the target's."""

    name: str
    text: bytes


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Requests, connections and rate.

    Attributes:
        raw_requests: Sent in rotation on each connection, instead of a request made of method,
            headers and body; all of them have the same expected answer.
        headers: Fields beside Host, as (name, value), in order.
        websocket: Each connection becomes a WebSocket, on which messages are sent in place of
            requests, and the target has to send each back; a message is the body, or 32 bytes.
        rate_rps: Requests per second and arm, evenly spaced (open loop); None is the closed loop,
            in which each connection sends its next request after the response.
    """

    path: str = "/"
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    websocket: bool = False
    raw_requests: tuple[RawRequest, ...] = ()
    connections: int = 64
    pipeline: int = 1
    connection_mode: ConnectionMode = ConnectionMode.KEEP_ALIVE
    rate_rps: int | None = None
    transport: Transport = Transport.TCP
    match: Match = Match.BYTES

    @property
    def message(self) -> bytes:
        return self.body or MESSAGE

    @property
    def is_text(self) -> bool:
        """Whether the message of a WebSocket is a text; else it is binary."""
        try:
            self.message.decode()
        except UnicodeDecodeError:
            return False
        return True


# A load: the request rate during a measurement, from a fixed grid. CPU time per request depends on
# the rate. All runs use the same grid of rates (1-2-5), so that two runs are comparable; arms are
# compared at a rate that both reach, never at different rates.


class LoadLevel(StrEnum):
    LIGHT = "light"
    MEDIUM = "medium"
    HEAVY = "heavy"
    GIVEN = "given"  # the rate given with -R
    FULL = "full"  # the closed loop


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Requests per second to the server's cores while one arm is under load; None: closed loop."""

    rate_rps: int | None
    level: LoadLevel

    @property
    def text(self) -> str:
        """As in `5,000 requests/s (medium load)`."""
        if self.rate_rps is None:
            return "full load (closed loop)"
        text = f"{self.rate_rps:,} requests/s"
        return text if self.level is LoadLevel.GIVEN else f"{text} ({self.level} load)"


FULL_LOAD = Load(rate_rps=None, level=LoadLevel.FULL)


def rate_grid(low_rps: int, high_rps: int) -> tuple[int, ...]:
    """The rates 1, 2, 5 times a power of ten from `low_rps` to `high_rps`, both included."""
    rates = (step * 10**power for power in range(len(str(high_rps))) for step in (1, 2, 5))
    return tuple(rate for rate in rates if low_rps <= rate <= high_rps)


class Origin(StrEnum):
    RECIPE = "recipe"
    COMMAND = "command"
    URL = "url"


def short_version(reported: str) -> str:
    """The version number in a program's report: `2.8.7` of `2.8.7, Python 3.11.7`."""
    return re.split(r"[\s,]", reported, maxsplit=1)[0]


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """A target in one configuration, as it is written into a run's header.

    Attributes:
        target: The recipe's name; for a command or URL the arm's own name.
        command: The start command with its placeholders ({port}, {app}, ...) unfilled, so that no
            path of one machine is published.
        binary_sha256: Hash of the program file that was started; empty for a URL.
        source_sha256: Of a program that its recipe compiles: hash of the sources and of the
            commands that compile them; of the floor: hash of its sources. It stays the same where
            compilers differ; else empty.
        config_sha256: Hash of its configuration files and environment, with their placeholders;
            empty in older records.
    """

    name: str
    target: str
    origin: Origin
    version: str
    command: tuple[str, ...] = ()
    binary_sha256: str = ""
    source_sha256: str = ""
    config_sha256: str = ""
    description: str = ""
    limitations: str = ""


class UnavailableTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A target that is not available here, the reason, and the command that installs it."""

    name: str
    reason: str
    install_hint: str

    @property
    def sentence(self) -> str:
        return f"{self.name} is not available here: {self.reason}. To add it: {self.install_hint}"


SCHEMA = "jissoku.run/2"


class Mode(StrEnum):
    QUICK = "quick"
    STANDARD = "standard"


class Method(StrEnum):
    TIME_SLICED = "time-sliced"
    PAIRED = "paired"
    SINGLE = "single-target"


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of the machine that affect results, without anything that identifies it."""

    cpu_model: str
    cores: int
    smt: bool | None
    memory_bytes: int
    kernel: str
    hypervisor: str
    governor: str
    turbo: str
    clocksource: str
    python: str


class NetworkPath(StrEnum):
    """What is between the load generator and the targets of another host."""

    LOOPBACK = "loopback"  # both are one host
    VIRTUAL = "virtual"  # an interface without a device: a veth pair, a bridge, a tunnel
    WIRE = "wire"


class LoadHost(msgspec.Struct, frozen=True, kw_only=True):
    """The host of the load generator, if that is not the machine of the targets.

    `round_trip_ns` is the shortest round trip of a message to the agent before the first trial.
    `hosts`: as many hosts have sent the load together, of which `machine` is the first; 0: it was
    the client itself. `network`: the properties of a network that was emulated between both.
    """

    machine: Machine
    path: NetworkPath
    round_trip_ns: int
    hosts: int = 0
    network: str = ""


class CoreAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """Cores of each role; `shared` when server and load generator have the same."""

    server: tuple[int, ...]
    generator: tuple[int, ...]
    shared: bool = False


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a run, written first: `run.json`.

    Attributes:
        seed: Determines every order, role and port.
        reference: The arm with which all others are in paired trials.
        baseline: The arm that the others are compared with; the first one named.
        floor: The arm whose cost is the unit of relative cost; empty if unavailable.
        aa_control: A second copy of the baseline: their difference is noise. Empty in quick mode.
        workload: As requested; `rate_rps` None means that the lab chooses the rates.
        slice_ns: Nominal length of a slice in time-sliced trials.
        check_slice_ns: The other length, used for cross-checks in some blocks.
        noise_floor: Of `jissoku self-test` on this machine: the ratio of equal arms differs from 1
            by at most this in 95 of 100 runs; None if it has not been run.
        minimum_effect: Smallest ratio of costs, minus one, that matters. Depends on the method and
            the mode (docs/METHODOLOGY.md, "From trials to verdicts").
        boot: 12 hexadecimal digits of a hash of the kernel's boot identifier, the same in all runs
            of one boot. Empty if the kernel has none, and in older records.
        blocks_planned: At most this many blocks; None in older records.
        horizon: Verdicts are looked for after every block, and the error is spent over this many;
            0: once, after the last block, as in older records.
        request: What was asked, without paths and hosts of the machine; None in older records.
        load_host: The host of the load generator; None: it is `machine`, as that of the targets.
    """

    jissoku: str
    started_utc: str
    seed: int
    mode: Mode
    reference: str
    baseline: str
    floor: str
    arms: tuple[Arm, ...]
    workload: Workload
    machine: Machine
    cores: CoreAssignment
    unavailable: tuple[UnavailableTarget, ...] = ()
    minimum_effect: float = 0.005
    aa_control: str = ""
    method: Method = Method.PAIRED
    method_reason: str = ""
    loads: tuple[Load, ...] = ()
    slice_ns: int | None = None
    check_slice_ns: int | None = None
    objective: str = ""
    noise_floor: float | None = None
    verb: str = ""
    boot: str = ""
    machine_label: str = ""
    labels: dict[str, str] = {}
    blocks_planned: int | None = None
    experiment: str = ""
    horizon: int = 0
    request: AnyRequest | None = None
    load_host: LoadHost | None = None
    schema: str = SCHEMA


NOISE_SCHEMA = "jissoku.noise/2"


class NoiseFloor(msgspec.Struct, frozen=True, kw_only=True):
    """The noise floor of one method on one machine: the ratios of equal arms in 95 % of campaigns.

    They differ from 1 by at most this. Each had this many blocks; `block_sd_log` is the standard
    deviation of one block's log ratio.
    """

    noise_floor: float
    campaigns: int
    blocks: int
    block_sd_log: float
    measured_utc: str
    jissoku: str


class MachineNoise(msgspec.Struct, frozen=True, kw_only=True):
    """One machine: its identifying properties, and its noise floors."""

    cpu_model: str
    cores: int
    kernel: str
    hypervisor: str
    methods: dict[Method, NoiseFloor] = msgspec.field(default_factory=dict)


class NoiseFloors(msgspec.Struct, frozen=True, kw_only=True):
    """Every machine of a user, by its fingerprint."""

    schema: str = NOISE_SCHEMA
    machines: dict[str, MachineNoise] = msgspec.field(default_factory=dict)
