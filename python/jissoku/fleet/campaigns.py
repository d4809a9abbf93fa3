"""Comparisons that an agent runs on its own host: at most once each, with their records."""

import fcntl
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from jissoku import records
from jissoku.errors import InputError, JissokuError
from jissoku.fleet import wire
from jissoku.fleet.campaign_folder import (
    ENDED_FILE,
    KEPT_DAYS,
    LEASE_FILE,
    OUTPUT_FILE,
    RECORD,
    Ended,
    Lease,
    end_of,
    leased,
    note_copied,
    read,
    remove_copied,
)
from jissoku.fleet.campaign_wire import (
    AskCampaign,
    BeginCampaign,
    CampaignId,
    CampaignPart,
    CampaignState,
    CheckCampaign,
    EndCampaign,
)
from jissoku.fleet.permissions import Permissions
from jissoku.measure.machine import boot, machine
from jissoku.measure.selection import arm_names
from jissoku.model import join_names
from jissoku.records import files
from jissoku.records.run_folder import TRIALS_FILE, holds_run
from jissoku.request import ComparisonRequest, to_argv
from jissoku.request.options import rows
from jissoku.system.measurement_lock import BUSY, is_measuring, load_seconds_left
from jissoku.system.program import PROGRAM

# How long a reply waits for something new, in seconds, and how often it looks between two loads.
HOLD_S, LOOK_S = 20.0, 0.25

# Between SIGINT, after which a comparison ends its trial and keeps its records, and SIGKILL.
STOP_LIMIT_S = 60.0

# The longest campaign, in seconds: what a client asks for beyond it is refused.
LIMIT_MAX_S = 86_400.0

# Fields of a request that name files or hosts, and what is done instead.
INSTEAD = {
    "recipes": "recipes of other folders have to be on each machine: start its agent with"
    " `jissoku agent --recipes DIR`",
    "baseline": "a baseline is built on one machine: name two --cmd",
    "build": "it belongs to --baseline",
    "raw": "it is a file of one host",
    "body": "write the body itself in place of @FILE",
    "server_host": "each machine has its servers and its load",
    "server_keys": "it belongs to --server-host",
    "load_host": "each machine has its servers and its load",
    "machine": "each machine is asked by itself",
}


def check_fields(request: ComparisonRequest) -> None:
    """InputError for a comparison that names files or hosts, or is not for several machines."""
    for one, row in rows(ComparisonRequest):
        value = getattr(request, one.name)
        texts = value if isinstance(value, tuple) else (value,)
        is_local = any(isinstance(text, str) and text and row.is_local(text) for text in texts)
        if is_local and one.name in INSTEAD:
            raise InputError(f"{row.words[0]}: {INSTEAD[one.name]}")
    if request.profile or request.confirm:
        option = "--profile" if request.profile else "--confirm"
        raise InputError(f"{option}: it is for a comparison on one machine")
    if request.fail_if:
        raise InputError("--fail-if: a bound is decided on one machine")


def check_campaign(request: ComparisonRequest, permissions: Permissions) -> None:
    """The same, and for what is not permitted."""
    check_fields(request)
    for text in request.cmd:
        permissions.require_commands(f"--cmd {text}")
    for text in request.url:
        permissions.server_at(text.partition("=")[2])
    try:
        arm_names(request, has_floor=True, known=permissions.recipes)
    except InputError as error:
        raise InputError(
            f"{error} (recipes of other folders: start it with `jissoku agent --recipes DIR`)"
        ) from error


@dataclass(slots=True)
class _Running:
    """The process of a campaign, and when it is ended, by the monotonic clock."""

    id: CampaignId
    arms: tuple[str, ...]
    process: subprocess.Popen[bytes]
    end_ns: int
    timers: list[threading.Timer] = field(default_factory=list)

    def interrupt(self) -> None:
        """Ends it after its trial, and kills it if it has not ended in time."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGINT)
        self._after(STOP_LIMIT_S, self.process.kill)

    def limit(self, seconds: float) -> None:
        self._after(seconds, self.interrupt)

    def _after(self, seconds: float, call: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, call)
        timer.daemon = True
        self.timers.append(timer)
        timer.start()


class Campaigns:
    """All campaigns of an agent. One runs at a time; it does not end with its client."""

    def __init__(
        self,
        folder: Path,
        permissions: Permissions,
        recipes: Sequence[str] = (),
        *,
        keep_days: float = KEPT_DAYS,
        note: Callable[[str], object] = lambda _: None,
        command: Sequence[str] = PROGRAM,
    ) -> None:
        """`recipes` are the folders of the agent's own recipes; `note` receives what happens.

        A record that its client has copied is removed `keep_days` later, when a campaign begins.
        InputError if the folder cannot be written.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--campaigns {folder}: {error.strerror}") from error
        self._folder = folder.absolute()
        self._permissions = permissions
        self._recipes = tuple(str(Path(one).absolute()) for one in recipes)
        self._keep_days = keep_days
        self._note = note
        self._command = tuple(command)
        self._running: _Running | None = None
        self._changed = threading.Condition()

    def answers(self, give_up: Callable[[], bool]) -> dict[type, Callable[[Any], msgspec.Struct]]:
        """The answers to requests; `give_up` is asked while a reply waits."""
        return {
            CheckCampaign: self.check,
            BeginCampaign: self.begin,
            AskCampaign: lambda asked: self.part(asked, give_up),
            EndCampaign: self.end,
        }

    def check(self, asked: CheckCampaign) -> CampaignPart:
        """Says what measures on this machine now; InputError for what is refused."""
        check_campaign(asked.request, self._permissions)
        return CampaignPart(state=CampaignState.UNKNOWN, busy=self._busy())

    def begin(self, asked: BeginCampaign) -> CampaignPart:
        """Starts a campaign, which happens once for each identifier.

        Of one that has ended, what there is of it; of one that is not begun, because the machine
        measures something else, what that is. InputError: it runs, was cut off, or is refused.
        """
        place = self._folder / asked.id.folder()
        check_campaign(asked.request, self._permissions)
        if not 0 < asked.limit_s <= LIMIT_MAX_S:
            raise InputError(f"a campaign ends within {LIMIT_MAX_S:,.0f} s")
        with self._changed:
            known = self._state(place)
            if known is CampaignState.ENDED:
                return self._found(asked.id, 0, "")
            if known is not CampaignState.UNKNOWN:
                raise InputError(f"this campaign was begun before: it is {known}, asked twice")
            if busy := self._busy():
                return CampaignPart(state=known, busy=busy)
            for name in remove_copied(self._folder, self._keep_days, self._is_over):
                self._note(f"campaign {name} is removed: its client has copied it")
            lease = leased(place, Lease(id=asked.id, request=asked.request))
            try:
                self._start(asked, place, lease)
            finally:
                os.close(lease)
        return self._found(asked.id, 0, "")

    def _start(self, asked: BeginCampaign, place: Path, lease: int) -> None:
        verb, *words = to_argv(asked.request)
        own = [word for one in self._recipes for word in ("--recipes", one)]
        output = ["--out", str(place / RECORD), "--quiet"]
        with (place / OUTPUT_FILE).open("xb") as file:
            process = subprocess.Popen(
                [*self._command, verb, *output, *own, *words],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # The lock on the lease is held until the process ends.
                pass_fds=(lease,),
            )
        end_ns = time.monotonic_ns() + round(asked.limit_s * 1e9)
        self._running = running = _Running(asked.id, asked.request.arms, process, end_ns)
        running.limit(asked.limit_s)
        self._note(f"campaign {place.relative_to(self._folder)} begins, process {process.pid}")
        threading.Thread(target=self._wait, args=(running, place), daemon=True).start()

    def _wait(self, running: _Running, place: Path) -> None:
        code = running.process.wait()
        for timer in running.timers:
            timer.cancel()
        with self._changed:
            # A disk without space: it counts as cut off, and its record as far as it goes.
            with suppress(OSError):
                files.replace_synced(place / ENDED_FILE, msgspec.json.encode(Ended(code=code)))
            self._running = None
            self._changed.notify_all()
        self._note(f"campaign {place.relative_to(self._folder)} has ended with code {code}")

    def part(self, asked: AskCampaign, give_up: Callable[[], bool]) -> CampaignPart:
        """What there is beyond what the client has.

        While load is sent, nothing is looked at: the reply waits for the end of the load.
        """
        deadline = time.monotonic() + HOLD_S
        while True:
            if (left_s := load_seconds_left()) > 0 and not give_up():
                time.sleep(min(left_s, HOLD_S))
                continue
            with self._changed:
                found = self._found(asked.id, asked.offset, asked.header_sha256)
                if asked.has_all and found.is_all(asked.offset):
                    note_copied(self._folder / asked.id.folder())
            is_new = found.lines or found.header or found.state is not CampaignState.RUNNING
            if not asked.wait or is_new or time.monotonic() > deadline:
                return found
            if give_up():
                raise JissokuError("the client is gone")
            with self._changed:
                self._changed.wait(LOOK_S)

    def end(self, asked: EndCampaign) -> CampaignPart:
        """Asks a campaign to end after its trial; one that does not run stays as it is."""
        running = self._running
        if running is not None and running.id == asked.id:
            running.interrupt()
        with self._changed:
            return self._found(asked.id, 0, "-")

    def close(self) -> None:
        """Ends the campaign that runs, and waits for it."""
        running = self._running
        if running is None:
            return
        running.interrupt()
        with suppress(subprocess.TimeoutExpired):
            running.process.wait(STOP_LIMIT_S + 1)

    def _busy(self) -> str:
        if (running := self._running) is not None:
            what = f"another comparison, of {join_names(running.arms)}, runs on this machine"
        elif is_measuring():
            what = BUSY
        else:
            return ""
        return f"{what}: try again when it has ended"

    def _state(self, place: Path) -> CampaignState:
        if (place / ENDED_FILE).exists():
            return CampaignState.ENDED
        try:
            lease = os.open(place / LEASE_FILE, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return CampaignState.UNKNOWN
        try:
            fcntl.flock(lease, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return CampaignState.RUNNING
        finally:
            os.close(lease)
        if self._running is not None and self._folder / self._running.id.folder() == place:
            return CampaignState.RUNNING  # Its process has ended just now, and it is not noted yet.
        # An agent that was killed has noted nothing: then the record says whether it is whole.
        is_whole = holds_run(place / RECORD) and not records.unfinished_reason(place / RECORD)
        return CampaignState.ENDED if is_whole else CampaignState.CUT_OFF

    def _is_over(self, place: Path) -> bool:
        return self._state(place) in {CampaignState.ENDED, CampaignState.CUT_OFF}

    def _found(self, key: CampaignId, offset: int, header_sha256: str) -> CampaignPart:
        place = self._folder / key.folder()
        state, running = self._state(place), self._running
        part = CampaignPart(state=state, busy=self._busy())
        if state is CampaignState.UNKNOWN:
            return part
        header, lines = read(place / RECORD, offset, header_sha256)
        part = msgspec.structs.replace(part, header=header, lines=lines)
        if state is CampaignState.RUNNING:
            is_own = running is not None and running.id == key
            left_s = (running.end_ns - time.monotonic_ns()) / 1e9 if running and is_own else 0.0
            return msgspec.structs.replace(part, left_s=max(0.0, left_s))
        trials = files.WholeLines.of(place / RECORD / TRIALS_FILE)
        code = None
        if state is CampaignState.ENDED:
            with suppress(OSError, msgspec.MsgspecError):
                code = msgspec.json.decode((place / ENDED_FILE).read_bytes(), type=Ended).code
        return msgspec.structs.replace(
            part,
            trials_bytes=trials.bytes,
            trials_sha256=trials.sha256,
            unfinished=records.unfinished_reason(place / RECORD),
            code=code,
            output=end_of(place / OUTPUT_FILE),
        )


class CampaignSession:
    """A client that has campaigns run, and pulls their records; they go on without it."""

    def __init__(self, campaigns: Campaigns | None, give_up: Callable[[], bool]) -> None:
        if campaigns is None:
            raise InputError(
                "it runs no comparisons of its own: with `jissoku agent --campaigns DIR` its"
                " operator lets clients have them run there, load included"
            )
        self._answers = campaigns.answers(give_up) | {wire.AskTime: _time}

    def welcome(self) -> wire.Welcome:
        return wire.Welcome(machine=machine(), boot=boot(), host="")

    def handle(self, request: wire.Request) -> msgspec.Struct:
        """The result of a request; JissokuError if it is refused or fails."""
        if type(request) not in self._answers:
            raise InputError("a session for campaigns answers nothing else")
        return self._answers[type(request)](request)

    def close(self) -> None:
        """Ends nothing."""


def _time(_: wire.AskTime) -> wire.TimeThere:
    return wire.TimeThere(at_ns=time.monotonic_ns())
