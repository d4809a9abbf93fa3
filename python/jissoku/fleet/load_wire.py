"""Messages about load that an agent sends: the agent of a load host."""

import msgspec

from jissoku.measure.loadgen import LoadSpec, Share
from jissoku.measure.observation import HostObservation, Report
from jissoku.model.run import NetworkPath


class ChooseLoadCores(msgspec.Struct, frozen=True, kw_only=True, tag="load-cores"):
    """The cores of the load generator as a list such as `0,2-3`; None: the agent chooses.

    `server` is the address of the servers' host.
    """

    server: str
    given: str | None = None


class LoadCores(msgspec.Struct, frozen=True, kw_only=True):
    """Those of the load generator, and what is between this host and the servers' host."""

    generator: tuple[int, ...]
    path: NetworkPath


class Echo(msgspec.Struct, frozen=True, kw_only=True):
    """Where the path to the servers' host is measured: a port on which their agent listens."""

    host: str
    port: int


class Arm(msgspec.Struct, frozen=True, kw_only=True, tag="arm"):
    """A load generator to start, which connects and then waits; one that there was is ended.

    `echo` None: the path is not measured.
    """

    spec: LoadSpec
    share: Share
    echo: Echo | None = None


class Armed(msgspec.Struct, frozen=True, kw_only=True):
    """It is connected, or has ended before: what it said, and its exit code."""

    is_armed: bool
    stderr: str = ""
    code: int = 0


class Begin(msgspec.Struct, frozen=True, kw_only=True, tag="begin"):
    """The armed load begins at this time of the agent's clock."""

    start_ns: int


class EndLoad(msgspec.Struct, frozen=True, tag="load-end"):
    """Waits for the end of the load, and asks for what it was."""


class DropLoad(msgspec.Struct, frozen=True, tag="load-drop"):
    """Ends the load generator, if there is one; what it has measured is not wanted."""


LoadRequest = ChooseLoadCores | Arm | Begin | EndLoad | DropLoad


class PathTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Round trips between the kernels of both hosts; None: nothing was answered.

    `idle_ns` is the shortest one before the load, `loaded_ns` the median one during it.
    """

    idle_ns: int | None = None
    loaded_ns: int | None = None


class LoadResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a load generator has measured, and what its host has met meanwhile.

    `report` None: nothing; then `stderr` and `code` say why. `wait_fraction` is the time without a
    core, divided by the window.
    """

    report: Report | None
    stderr: str
    code: int
    wait_fraction: float | None
    host: HostObservation
    path: PathTimes
