"""Has several machines run the same comparison, and pulls their records.

Each machine has a thread here, which connects, begins the comparison or finds it under way, and
copies what is new. A connection that is lost costs nothing: the comparison goes on, and the copy is
continued where it ended.
"""

import queue
import random
import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import msgspec

from jissoku.errors import HostLost, InputError, JissokuError, RecordError
from jissoku.fleet.campaign_agent import CampaignAgent
from jissoku.fleet.campaign_wire import (
    CAMPAIGNS,
    AskCampaign,
    BeginCampaign,
    CampaignId,
    CampaignPart,
    CampaignState,
)
from jissoku.fleet.campaigns import check_fields
from jissoku.fleet.channel import GaveUp
from jissoku.fleet.connecting import AgentBusy, default_keys, session
from jissoku.fleet.keys import CLIENT, Keys, ListenAddress, read_keys
from jissoku.measure.comparison import check_request
from jissoku.measure.machine import now_utc
from jissoku.measure.selection import folder_for, recorded, seed, workload
from jissoku.model.machines import MachinesRun, Outcome
from jissoku.records import machines as store
from jissoku.records.run_folder import check_new
from jissoku.request import ComparisonRequest
from jissoku.system.interruption import Interruption
from jissoku.system.measurement_lock import BUSY
from jissoku.system.redaction import redact

# A comparison without a limit of its own ends within this time, and targets are built before it.
TIME_MAX_S, PREPARING_S = 7_200.0, 1_800.0

# A machine that cannot be reached is given up this long after the end of its comparison.
PATIENCE_S = 600.0

# After Ctrl-C: its trial ends, and what is left is pulled.
STOP_PATIENCE_S = 90.0

# Pauses between attempts to connect; the last one is repeated.
PAUSES_S = (0.5, 1.0, 2.0, 5.0, 10.0)

# A machine that measures something else is asked again after this time: each question disturbs it.
BUSY_PAUSE_S = 30.0

SEEDS = 2**31

# That of intervals at which a comparison ends: it measures all its blocks, or all its time.
PRECISION = 0.0001


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinesPlan:
    """A comparison on several machines, whose folder exists."""

    folder: Path
    run: MachinesRun
    resume: store.Resume
    keys: Keys
    version: str
    addresses: tuple[ListenAddress, ...]

    def request_of(self, machine: int) -> ComparisonRequest:
        """What one machine is asked, with a seed of its own.

        It does not end when it is decided, which makes ratios too large on average: of ten such
        machines the mean's interval holds in 90 % of cases in place of 95 (`tests.machines_study`).
        """
        asked = self.resume.request
        own = random.Random(f"{self.run.seed}/machine/{machine}").randrange(SEEDS)
        is_open = asked.blocks is None and asked.precision is None
        return msgspec.structs.replace(
            asked,
            machine=(),
            server_keys="",
            seed=own,
            precision=PRECISION if is_open else asked.precision,
        )

    def key(self, machine: int, attempt: int) -> CampaignId:
        return CampaignId(run=self.resume.id, machine=machine, attempt=attempt)


def new_plan(request: ComparisonRequest, folder: Path | None, version: str) -> MachinesPlan:
    """Refuses what cannot be measured, asks all machines whether they can, and makes the folder."""
    check_machines(request)
    if folder is not None:
        check_new(folder)
    own = seed(request.seed)
    plan = MachinesPlan(
        folder=folder or folder_for("machines", *request.arms),
        run=MachinesRun(
            jissoku=version,
            started_utc=now_utc(),
            seed=own,
            machines=len(request.machine),
            request=recorded(request),
        ),
        resume=store.Resume(
            id=secrets.token_hex(8), request=msgspec.structs.replace(request, seed=own)
        ),
        keys=read_keys(default_keys(request.server_keys), CLIENT),
        version=version,
        addresses=_addresses(request),
    )
    _require_free(plan)
    store.create(plan.folder, plan.run, plan.resume)
    return plan


def check_machines(request: ComparisonRequest) -> None:
    """Refuses what several machines cannot be asked, without asking them."""
    check_request(request)
    check_fields(msgspec.structs.replace(request, machine=(), server_keys=""))
    workload(request)
    _addresses(request)


def resumed_plan(folder: Path, version: str) -> MachinesPlan:
    """The plan of an earlier run. InputError: it was another version, or has no such record."""
    run, resume = store.read_header(folder), store.read_resume(folder)
    if run.jissoku != version:
        raise InputError(
            f"{folder} was begun by {run.jissoku}, and this is {version}: a run has one version"
        )
    return MachinesPlan(
        folder=folder,
        run=run,
        resume=resume,
        keys=read_keys(default_keys(resume.request.server_keys), CLIENT),
        version=version,
        addresses=_addresses(resume.request),
    )


def _addresses(request: ComparisonRequest) -> tuple[ListenAddress, ...]:
    found = tuple(ListenAddress.parse(text, "--machine") for text in request.machine)
    if twice := next((one for one in found if found.count(one) > 1), None):
        raise InputError(f"--machine {twice.text} is given twice: one agent is one machine")
    return found


def _require_free(plan: MachinesPlan) -> None:
    """Before any machine begins: all can be reached, permit it, and measure nothing else."""
    for machine, address in enumerate(plan.addresses, 1):
        with session(address, plan.keys, plan.version, CampaignAgent, CAMPAIGNS) as link:
            part = link.check(plan.request_of(machine))
        if part.busy:
            raise InputError(f"{address.text}: {part.busy}")


def measure_machines(
    plans: Sequence[MachinesPlan],
    note: Callable[[str], object],
    *,
    is_resumed: bool = False,
    takes_only: bool = False,
) -> tuple[bool, str]:
    """Has all machines measure what they have not yet, until each has ended or is given up.

    A machine that several plans name runs one comparison after the other, without waiting for other
    machines. Returns whether it was not interrupted, and why records cannot be written here any
    more: what is on disk can be resumed. Ctrl-C ends the comparisons after their trials, and pulls
    what they have; a second one leaves them. With `takes_only` it pulls what there is now, and
    neither begins nor ends anything.
    """
    control = Control(takes_only=takes_only)
    queues: dict[ListenAddress, list[Pull]] = defaultdict(list)
    for plan in plans:
        for machine in missing(plan):
            pull = Pull(plan, machine, control, is_resumed=is_resumed)
            queues[plan.addresses[machine - 1]].append(pull)
    with Interruption() as interruption:
        interruption.waits_for(control)
        for address, pulls in queues.items():
            words = (pulls, control)
            threading.Thread(target=_run_all, args=words, name=address.text, daemon=True).start()
        left = sum(map(len, queues.values()))
        try:
            while left:
                event = control.events.get()
                if isinstance(event, RecordError):
                    return True, str(event)
                if isinstance(event, str):
                    note(event)
                elif event is Signal.DONE:
                    left -= 1
                elif control.stop.is_set() or takes_only:
                    break
                else:
                    control.stop.set()
                    note("Ending the comparisons after their trials; a second Ctrl-C leaves them.")
        finally:
            control.leave.set()
    return not control.stop.is_set(), ""


def missing(plan: MachinesPlan) -> list[int]:
    """The machines of a plan that have not measured to their end."""
    done = store.read_outcomes(plan.folder)
    every = range(1, plan.run.machines + 1)
    return [machine for machine in every if machine not in done or done[machine].reason]


class Signal(Enum):
    DONE = "a machine has ended a comparison"
    INTERRUPTED = "Ctrl-C"


class Control:
    """What the threads of all machines share.

    `stop` ends comparisons after their trials, and `leave` the threads, without ending anything.
    With `takes_only` the threads begin and end nothing, and wait for nothing.
    """

    def __init__(self, *, takes_only: bool = False) -> None:
        self.takes_only = takes_only
        # Lines of progress, why nothing can be written here, and signals. What is put from the
        # handler of Ctrl-C must not wait for a lock: this queue is made for that.
        self.events: queue.SimpleQueue[str | RecordError | Signal] = queue.SimpleQueue()
        self.stop = threading.Event()
        self.leave = threading.Event()

    def poll(self) -> int | None:
        return None

    def terminate(self) -> None:
        self.events.put(Signal.INTERRUPTED)


def _run_all(pulls: Sequence["Pull"], control: Control) -> None:
    for pull in pulls:
        try:
            pull.run()
        except GaveUp:
            return
        except RecordError as error:
            control.events.put(error)
            return
        control.events.put(Signal.DONE)


class _Refused(Exception):  # noqa: N818 - it says what happened
    """The agent has answered, and will not do it."""


class Pull:
    """One comparison of one machine, in the machine's thread."""

    def __init__(
        self, plan: MachinesPlan, machine: int, control: Control, *, is_resumed: bool = False
    ) -> None:
        self._plan = plan
        self._machine = machine
        self._control = control
        self._is_resumed = is_resumed
        self._is_ending = False
        self._is_open = False  # It has no outcome yet: `--resume` asks for it again.
        self._failures = 0  # Of connections, since the last part.
        self._noted = ""
        self._deadline = 0.0

    def run(self) -> None:
        """Measures to the end. RecordError: it cannot be written here. GaveUp: it is left."""
        if self._control.stop.is_set():
            return
        attempts = store.attempts(self._plan.folder, self._machine)
        known = store.read_outcomes(self._plan.folder).get(self._machine)
        has_ended = known is not None and known.attempt == attempts
        if self._control.takes_only and (has_ended or not attempts):
            return
        attempt = attempts + 1 if has_ended or not attempts else attempts
        self._deadline = time.monotonic() + PATIENCE_S
        outcome = self._attempted(attempt)
        while outcome.reason and self._is_asked_again(outcome, attempts):
            outcome = self._attempted(outcome.attempt + 1)

    def _is_asked_again(self, outcome: Outcome, attempts: int) -> bool:
        """Whether another attempt follows: an earlier run's was cut off, or has found no place."""
        if self._control.takes_only:
            return False
        is_busy = outcome.reason.startswith(BUSY)
        if is_busy and self._control.leave.wait(BUSY_PAUSE_S):
            raise GaveUp
        is_earlier = self._is_resumed and outcome.attempt <= attempts
        return (is_busy or is_earlier) and not self._control.stop.is_set()

    def _attempted(self, attempt: int) -> Outcome:
        key = self._plan.key(self._machine, attempt)
        place = store.machine_folder(self._plan.folder, self._machine, attempt)
        with closing(store.PulledRun(place)) as copy:
            reason = self._without_host(self._measured(key, copy))
        outcome = Outcome(machine=self._machine, attempt=attempt, reason=reason)
        if not self._is_open:
            store.add_outcome(self._plan.folder, outcome)
        self._say(reason or "finished")
        return outcome

    def _without_host(self, reason: str) -> str:
        text = self._plan.addresses[self._machine - 1].text
        return redact(reason.replace(f"the agent on {text}", "its agent").replace(text, "HOST"))

    def _say(self, text: str) -> None:
        self._control.events.put(f"{self._plan.folder.name}: machine {self._machine}: {text}.")

    def _gives_up(self) -> bool:
        """Whether a wait for something new ends: for good, or to end the comparison."""
        control = self._control
        return control.leave.is_set() or (control.stop.is_set() and not self._is_ending)

    def _measured(self, key: CampaignId, copy: store.PulledRun) -> str:
        """Why it is not measured to its end; empty if it is."""
        plan, address = self._plan, self._plan.addresses[self._machine - 1]
        while True:
            try:
                with session(address, plan.keys, plan.version, CampaignAgent, CAMPAIGNS) as link:
                    return self._pulled(link, key, copy)
            except GaveUp:
                if self._control.leave.is_set():
                    raise
                # The next session ends the comparison.
            except RecordError:
                raise
            except (_Refused, InputError) as refusal:
                return str(refusal)
            except JissokuError as error:
                if self._control.takes_only:
                    self._is_open = True
                    return str(error)
                if self._is_over(error):
                    self._is_open = True
                    return "its agent cannot be reached any more"
                self._pause(error)

    def _is_over(self, error: JissokuError) -> bool:
        """Whether it is given up; a machine that is in use is waited for, however long."""
        if self._control.stop.is_set():
            self._deadline = min(self._deadline, time.monotonic() + STOP_PATIENCE_S)
        elif isinstance(error, AgentBusy):
            self._deadline = time.monotonic() + PATIENCE_S
            return False
        return time.monotonic() > self._deadline

    def _pause(self, error: JissokuError) -> None:
        """Waits before the next connection; of the same failures in a row the first is noted."""
        if self._noted != str(error):
            self._noted = str(error)
            self._say(f"{error}; trying again")
        pause_s = PAUSES_S[min(self._failures, len(PAUSES_S) - 1)]
        if isinstance(error, AgentBusy):
            pause_s = BUSY_PAUSE_S
        self._failures += 1
        if self._control.leave.wait(pause_s):
            raise GaveUp

    def _pulled(self, link: CampaignAgent, key: CampaignId, copy: store.PulledRun) -> str:
        try:
            part = self._part(link, key, copy, wait=False)
            if part.state is CampaignState.UNKNOWN:
                if copy.offset:
                    return "its machine has no record of it any more"
                if self._control.stop.is_set() or self._control.takes_only:
                    self._is_open = True
                    return "it was not begun"
                self._begin(link, key)
                part = self._part(link, key, copy, wait=False)
            while part.state is CampaignState.RUNNING or copy.offset < part.trials_bytes:
                if self._control.stop.is_set() and not self._is_ending:
                    link.end(key)
                    self._is_ending = True
                is_news = part.header or part.lines
                if self._control.takes_only and not is_news:
                    self._is_open = True
                    return "it goes on"
                part = self._part(link, key, copy, wait=not self._control.takes_only)
            copy.finish(part.trials_sha256, part.unfinished)
            with suppress(JissokuError):  # Without it the machine keeps its record.
                link.part(_asked(key, copy, has_all=True))
        except (HostLost, RecordError, AgentBusy):
            raise
        except JissokuError as error:
            raise _Refused(str(error)) from error
        return _reason(part)

    def _begin(self, link: CampaignAgent, key: CampaignId) -> None:
        request = self._plan.request_of(self._machine)
        limit_s = (request.time_limit or TIME_MAX_S) + PREPARING_S
        part = link.begin(BeginCampaign(id=key, request=request, limit_s=limit_s))
        if part.state is CampaignState.UNKNOWN:
            raise AgentBusy(part.busy.partition(":")[0])
        model = link.machine().cpu_model
        self._say(f"{model}, begins")

    def _part(
        self, link: CampaignAgent, key: CampaignId, copy: store.PulledRun, *, wait: bool
    ) -> CampaignPart:
        """The next part, which is on disk here when this returns."""
        asked = _asked(key, copy, wait=wait)
        part = link.part(asked, self._gives_up if wait else self._control.leave.is_set)
        self._failures = 0
        if part.state is not CampaignState.UNKNOWN:
            self._noted = ""
        if part.header:
            copy.replace_header(part.header)
        if part.lines:
            copy.append(part.lines)
        self._deadline = time.monotonic() + part.left_s + PATIENCE_S
        return part


def _asked(
    key: CampaignId, copy: store.PulledRun, *, wait: bool = False, has_all: bool = False
) -> AskCampaign:
    """A question for what is beyond the copy."""
    known = copy.header_sha256
    return AskCampaign(id=key, offset=copy.offset, header_sha256=known, wait=wait, has_all=has_all)


def _reason(part: CampaignPart) -> str:
    """Why a campaign that has ended is not finished, as the end of a sentence."""
    if part.state is CampaignState.CUT_OFF or (part.code or 0) < 0:
        return "its process was killed, or its host restarted"
    if part.trials_bytes == 0:
        last = part.output.strip().rpartition("\n")[2].removeprefix("jissoku: ")
        if last.startswith(BUSY):
            return BUSY
        return last or f"it ended with code {part.code} and measured nothing"
    return part.unfinished
