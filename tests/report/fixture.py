"""Made-up runs that between them show everything a report can show."""

from dataclasses import replace
from functools import cache

from jissoku.model import (
    Arm,
    Conditions,
    Consequence,
    Gate,
    Kind,
    Missing,
    Run,
    Stage,
    Summary,
    Trial,
)
from jissoku.stats import gates, summarise
from tests.stats import made
from tests.stats.made import Truth

HOSTILE = (
    "\x1b[31mTraceback\x1b[0m (most recent call last):\n"
    "  <script>alert('stderr')</script> | `tick` **bold** </pre>\n"
    "OSError: [Errno 98] Address already in use \udcff\x07\n"
)

TRUTHS = {
    "jissoku": Truth(cost_ns=5380, rate_rps=112_000, latency_ns=61_000, user_fraction=0.11,
                     rss_bytes=3_900_000),
    "nginx-tuned": Truth(cost_ns=7060, rate_rps=83_000, latency_ns=74_000, user_fraction=0.27,
                         rss_bytes=6_200_000),
    "nginx": Truth(cost_ns=7075, rate_rps=82_000, latency_ns=76_000, user_fraction=0.27,
                   rss_bytes=6_150_000),
    "node": Truth(cost_ns=24_300, rate_rps=24_000, latency_ns=180_000, user_fraction=0.61,
                  rss_bytes=71_000_000, duet_rate_rps=9_000),
    "tornado": Truth(cost_ns=231_000, rate_rps=2_600, latency_ns=900_000, user_fraction=0.88,
                     rss_bytes=38_000_000, duet_rate_rps=1_000),
    "floor": Truth(cost_ns=4890, rate_rps=123_000, latency_ns=58_000, user_fraction=0.04,
                   rss_bytes=1_300_000),
    "python": Truth(cost_ns=150_000),
}  # fmt: skip

ARMS = {
    "jissoku": made.arm(
        "jissoku",
        version="jissoku 0.1.0",
        essay="The server of this project, raced through its recipe like a stranger.",
        leaves_out="TLS and HTTP/2.",
        binary_sha256="5d41402abc4b2a76b9719d911017c592ae2f0c9d2c1f3f6d7a3b0e2f5c4d3e21",
    ),
    "nginx-tuned": made.arm(
        "nginx-tuned",
        version="nginx/1.22.1",
        command=("nginx", "-c", "{conf}"),
        essay="One worker per core, no access log, open files cached.",
    ),
    "nginx": made.arm("nginx", version="nginx/1.22.1", leaves_out="Nothing: as it is installed."),
    "node": made.arm("node", version="v18.20.4", leaves_out="Keep-alive limits."),
    "tornado": made.arm("tornado", version="6.6.1", essay="A Python framework & its own loop."),
    "floor": made.arm(
        "floor",
        version="jissoku 0.1.0",
        essay="The least that can answer: receive, count line ends, send a constant.",
        leaves_out="Everything else: it does not read the request.",
    ),
    "python": made.arm("python", version="3.11.7", essay="http.server of the standard library."),
}

GO = Missing(name="go", reason="no go command was found", remedy="apt install golang-go")


@cache
def race() -> Summary:
    """Six arms and the floor: one fails, one trial is disturbed, one rate is generator-bound."""
    names = ["jissoku", "nginx-tuned", "nginx", "node", "tornado", "python", "floor"]
    run = _run(names, floor="floor", missing=(GO,))
    trials = list(made.trials(run, TRUTHS, blocks=9, seed=7))
    trials = [_failed(trial) if "python" in trial.arms else trial for trial in trials]
    trials = [_generator_bound(t) if t.arms == ("jissoku",) else t for t in trials]
    disturbed = next(i for i, t in enumerate(trials) if t.arms == ("nginx", "floor"))
    trials[disturbed] = _rejected(trials[disturbed])
    again = replace(trials[disturbed], index=len(trials), attempt=1, gates=())
    return summarise(run, [_gated(trial) for trial in (*trials, again)])


@cache
def two() -> Summary:
    """Two arms in direct duet, and the floor against the first."""
    run = _run(["jissoku", "nginx-tuned", "floor"], floor="floor", reference="jissoku")
    return summarise(run, [_gated(trial) for trial in made.trials(run, TRUTHS, seed=3)])


@cache
def no_floor() -> Summary:
    """Three arms without a floor: multiples are of the baseline."""
    floor = Missing(name="floor", reason="this build has no floor", remedy="make build")
    run = _run(["nginx", "node", "jissoku"], reference="nginx", missing=(floor,))
    return summarise(run, [_gated(trial) for trial in made.trials(run, TRUTHS, seed=5)])


@cache
def nothing() -> Summary:
    """Two arms of which neither ever started."""
    run = _run(["jissoku", "python"])
    trials = [made.failed(Kind.DUET, "python", "jissoku", index=i, block=i) for i in range(3)]
    trials += [made.failed(Kind.SOLO_RATE, "jissoku", index=3, block=0)]
    return summarise(run, trials)


@cache
def empty() -> Summary:
    """A run that was interrupted before its first trial ended."""
    return summarise(_run(["jissoku", "nginx"]), ())


ALL = {"race": race, "two": two, "no_floor": no_floor, "nothing": nothing, "empty": empty}


def _run(names: list[str], **changes: object) -> Run:
    arms: tuple[Arm, ...] = tuple(ARMS[name] for name in names)
    floor = str(changes.pop("floor", ""))
    reference = str(changes.pop("reference", ""))
    return made.run(names, floor=floor, reference=reference, arms=arms, **changes)


def _gated(trial: Trial) -> Trial:
    return replace(trial, gates=(*trial.gates, *gates(trial)))


def _failed(trial: Trial) -> Trial:
    broken = made.failed(trial.kind, "python", stderr=HOSTILE).failure
    assert broken is not None
    failure = replace(broken, stage=Stage.LOAD, stderr=HOSTILE, reason="died: killed by SIGSEGV")
    return replace(trial, lanes=(), conditions=None, failure=failure)


def _generator_bound(trial: Trial) -> Trial:
    if trial.kind is not Kind.SOLO_RATE or not isinstance(trial.conditions, Conditions):
        return trial
    seen = replace(trial.conditions, generator_busy_fraction=0.97, server_cores_busy_fraction=0.9)
    return replace(trial, conditions=seen)


def _rejected(trial: Trial) -> Trial:
    text = "another machine took 3.1 % of the cores (steal)"
    return replace(trial, gates=(Gate(name="steal", consequence=Consequence.REJECT, message=text),))
