import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from jissoku.design.sampling_plan import SECOND, SamplingPlan
from jissoku.measure.comparison import CompareConfig
from jissoku.measure.progress import ProgressListener
from jissoku.measure.trial import PreparedArm
from jissoku.model import Mode, Run, Trial, Workload
from jissoku.system import cores
from jissoku.targets import contract
from jissoku.targets.command import from_command
from jissoku.targets.placeholders import BuildPaths

# Long enough for some answers, short enough for a test.
BRIEF = SamplingPlan(
    blocks=1,
    blocks_max=1,
    closed_loop_blocks=1,
    fixed_rate_blocks=1,
    cross_check_blocks=1,
    warmup_ns=SECOND // 50,
    window_ns=SECOND // 10,
    slice_ns=SECOND // 50,
    check_slice_ns=SECOND // 25,
    slice_requests=5,
    warmup_requests=50,
    warmup_max_ns=SECOND // 20,
    compile_ns=SECOND // 20,
)

SERVER = """
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked = 0
    def do_GET(self):
        Handler.asked += 1
        body = answer(Handler.asked)
        self.wfile.write(b"HTTP/1.1 200 OK\\r\\nContent-Type: text/plain\\r\\n"
            + b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
    def log_message(self, *_): pass
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 100
def answer(count): return b"Hello, World!"
"""
SERVE = "\nServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()\n"


class CollectingListener(ProgressListener):
    """A listener that collects notes and trials."""

    def __init__(self, on_trial: Callable[[Trial], object] = lambda _: None) -> None:
        self.notes: list[str] = []
        self.trials: list[Trial] = []
        self.totals: list[int] = []
        self.begun: list[str] = []
        self.valued: list[int] = []
        self._on_trial = on_trial

    def note(self, text: str) -> None:
        self.notes.append(text)

    def begins(self, text: str) -> None:
        self.begun.append(text)

    def values(self, run: Run, trials: Sequence[Trial]) -> None:
        assert run.loads
        self.valued.append(len(trials))

    def trial(self, trial: Trial, done: int, total: int, seconds_left: float) -> None:
        assert done <= total
        assert seconds_left >= 0
        self.trials.append(trial)
        self.totals.append(total)
        self._on_trial(trial)


Asks = Callable[..., CompareConfig]


@pytest.fixture
def asks(tmp_path: Path) -> Asks:
    """Makes a question out of Python servers, given as {name: code that changes SERVER}."""
    return asking(tmp_path)


def asking(folder: Path) -> Asks:
    """The same in any folder."""
    place = BuildPaths(cache=folder / "cache", files=contract.make_files(folder / "files"))

    def make(servers: dict[str, str], **workload: object) -> CompareConfig:
        arms = []
        for name, code in servers.items():
            program = folder / f"{name}.py"
            program.write_text(SERVER + code + SERVE)
            words = f"{name}={shlex.quote(sys.executable)} {shlex.quote(str(program))} {{port}}"
            prepared = from_command(words, place)
            arms.append(PreparedArm(prepared.arm(), prepared))
        return CompareConfig(
            arms_prepared=tuple(arms),
            workload=Workload(connections=2, **workload),  # type: ignore[arg-type]
            mode=Mode.QUICK,
            plan=BRIEF,
            seed=1,
            cores=cores.partition_cores(cores.available_cores()),
            folder=folder / "run",
            version="jissoku of the tests",
        )

    return make
