"""Messages about comparisons that an agent runs on its own host, and of what a client pulls."""

import re
from enum import StrEnum

import msgspec

from jissoku.errors import InputError
from jissoku.fleet.config_wire import PrepareConfigured
from jissoku.fleet.load_wire import LoadRequest
from jissoku.request import ComparisonRequest

# What a client says in its first message to be served one of these.
CAMPAIGNS = "campaigns"

# The largest part of a record in one message, in bytes; a line is a hundredth of it.
PART_BYTES_MAX = 1 << 20

RUN_ID = re.compile(r"[0-9a-f]{16}")

# Machines of a run, and attempts of one of them.
NUMBER_MAX = 100_000


class CampaignId(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at the comparison of one machine of a run. It is started once, or never."""

    run: str
    machine: int
    attempt: int = 1

    def folder(self) -> str:
        """A path below the folder of campaigns; InputError for what is no identifier."""
        numbers = self.machine, self.attempt
        if not (RUN_ID.fullmatch(self.run) and all(0 < one <= NUMBER_MAX for one in numbers)):
            raise InputError(f"no campaign has the identifier {self.run!r}, {numbers}")
        return f"{self.run}/{self.machine}-{self.attempt}"


class BeginCampaign(msgspec.Struct, frozen=True, kw_only=True, tag="campaign"):
    """A comparison to run; it is ended after `limit_s` seconds in any case."""

    id: CampaignId
    request: ComparisonRequest
    limit_s: float


class CheckCampaign(msgspec.Struct, frozen=True, kw_only=True, tag="campaign-check"):
    """Whether this comparison would be run there, before any machine begins it."""

    request: ComparisonRequest


class AskCampaign(msgspec.Struct, frozen=True, kw_only=True, tag="campaign-part"):
    """The lines of a record from a position on, in bytes; what is before it, the client has.

    `header_sha256` is of the header that the client has. With `wait`, the reply comes when there
    is something new. `has_all`: the client has the whole record on its disk.
    """

    id: CampaignId
    offset: int = 0
    header_sha256: str = ""
    wait: bool = False
    has_all: bool = False


class EndCampaign(msgspec.Struct, frozen=True, kw_only=True, tag="campaign-end"):
    """Ends a campaign after its trial, as Ctrl-C does."""

    id: CampaignId


CampaignRequest = BeginCampaign | CheckCampaign | AskCampaign | EndCampaign
OtherRequest = LoadRequest | CampaignRequest | PrepareConfigured


class CampaignState(StrEnum):
    UNKNOWN = "unknown"  # it was never begun there
    RUNNING = "running"
    ENDED = "ended"
    CUT_OFF = "cut off"  # it was begun, and its process was killed, or its host restarted


class CampaignPart(msgspec.Struct, frozen=True, kw_only=True):
    """What there is of a campaign beyond what the client has.

    Attributes:
        lines: Whole lines of `trials.jsonl` from the position that was asked for.
        header: `run.json`; empty if the client has it, or there is none yet.
        left_s: Seconds until it is ended in any case; 0 if it does not run.
        trials_bytes, trials_sha256: Of the whole file, once nothing is added any more.
        unfinished: Why the run is not finished, as the end of a sentence; empty if it is.
        code: Exit code of the comparison; None unless it has ended.
        output: The end of what it has printed.
        busy: What measures on that machine now, as a sentence; empty if nothing does.
    """

    state: CampaignState
    lines: bytes = b""
    header: bytes = b""
    left_s: float = 0.0
    trials_bytes: int = 0
    trials_sha256: str = ""
    unfinished: str = ""
    code: int | None = None
    output: str = ""
    busy: str = ""

    def is_all(self, offset: int) -> bool:
        """Whether nothing is added any more, and nothing is beyond this position."""
        is_over = self.state in {CampaignState.ENDED, CampaignState.CUT_OFF}
        return is_over and not self.header and offset == self.trials_bytes
