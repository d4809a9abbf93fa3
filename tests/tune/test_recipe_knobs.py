"""Every knob of our recipes: its change of the command or of the configuration."""

import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from jissoku.inference import ablation
from jissoku.measure import knob_changes
from jissoku.measure.knob_changes import TuningTarget
from jissoku.model import ChangeKind, Knob, KnobGoal, Origin, Recipe, UnavailableTarget, Workload
from jissoku.system.address import free_port
from jissoku.system.cores import available_cores
from jissoku.targets import catalogue, launch, nginx_config, process
from jissoku.targets.placeholders import BuildPaths, fill_text
from jissoku.targets.prepare import PreparedTarget, prepare
from jissoku.targets.process import LaunchOptions

RECIPES = catalogue.recipes()
WITH_KNOBS = {name: recipe for name, recipe in RECIPES.items() if recipe.knob}
NGINX = shutil.which("nginx")

# What each knob changes of the words or the environment of its target: what goes, and what comes.
CHANGED = {
    ("caddy-gateway", "gogc"): (set(), {"GOGC=400"}),
    ("go", "gogc"): (set(), {"GOGC=400"}),
    ("go", "one_processor"): ({"GOMAXPROCS={workers}"}, {"GOMAXPROCS=1"}),
    ("granian", "asyncio"): (set(), {"--loop", "asyncio"}),
    ("granian", "one_worker"): ({"{workers}"}, {"1"}),
    ("granian", "rust_tasks"): (set(), {"--task-impl", "rust"}),
    ("gunicorn", "keep_alive"): (set(), {"--worker-class", "gthread", "--keep-alive", "75"}),
    ("gunicorn", "threads"): (set(), {"--worker-class", "gthread", "--threads", "64"}),
    ("jissoku", "close_each"): (set(), {"--cause", "close-after=1"}),
    ("jissoku", "one_worker"): ({"{workers}"}, {"1"}),
    ("jissoku", "uring"): (set(), {"--driver", "uring"}),
    ("libmicrohttpd", "four_threads"): (set(), {"--threads", "4"}),
    ("libmicrohttpd", "poll"): (set(), {"--poll"}),
    ("node", "production"): (set(), {"NODE_ENV=production"}),
    ("node", "semi_space"): (set(), {"NODE_OPTIONS=--max-semi-space-size=64"}),
    ("node", "thread_pool"): (set(), {"UV_THREADPOOL_SIZE=64"}),
    ("node", "one_process"): ({"WORKERS={workers}"}, {"WORKERS=1"}),
    ("uvicorn", "asyncio"): (set(), {"--loop", "asyncio"}),
    ("uvicorn", "h11"): (set(), {"--http", "h11"}),
    ("uvicorn", "httptools"): (set(), {"--http", "httptools"}),
    ("uvicorn", "one_worker"): ({"{workers}"}, {"1"}),
    ("uvicorn", "uvloop"): (set(), {"--loop", "uvloop"}),
}

# System calls that a knob may predict.
SYSTEM_CALLS = {
    "connect",
    "epoll_wait",
    "futex",
    "openat",
    "pread64",
    "recvfrom",
    "sendfile",
    "splice",
    "write",
}

# Knobs that only say what their recipes say already: a worker for each core, kept connections.
SO_ALREADY = {
    ("go", "processor_each"),
    ("gunicorn", "workers"),
    ("jissoku", "workers"),
    ("nginx-proxy", "upstream_keepalive"),
    ("node", "cluster"),
    ("uvicorn", "keep_alive"),
    ("uvicorn", "no_access_log"),
    ("uvicorn", "workers"),
}


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knob_changes, "available_cores", lambda: (0, 1))


def tuned(recipe: Recipe) -> TuningTarget:
    base = PreparedTarget(
        name=recipe.name,
        origin=Origin.RECIPE,
        version="1",
        start=recipe.start,
        listen=recipe.listen,
        config=recipe.config,
    )
    return knob_changes.target_of_recipe(recipe, recipe.knob, base)


def said(prepared: PreparedTarget) -> Counter[str]:
    """Words of the command and settings of the environment."""
    assert prepared.start is not None
    environment = prepared.start.environment.items()
    return Counter([*prepared.start.command, *(f"{name}={value}" for name, value in environment)])


@pytest.mark.parametrize("name", WITH_KNOBS)
def test_knobs_change_what_they_mean(name: str) -> None:
    recipe = WITH_KNOBS[name]
    made = tuned(recipe)
    for knob in recipe.knob:
        if (name, knob.name) in SO_ALREADY:
            assert made.skipped[knob.name] == knob_changes.ALREADY_SET
        elif not edits_configurations(knob):
            gone, come = CHANGED[name, knob.name]
            base, switched = said(made.prepared(())), said(made.prepared((knob.name,)))
            assert ({*(base - switched)}, {*(switched - base)}) == (gone, come)


def test_every_knob_that_is_expected_to_change_something_is_in_a_recipe() -> None:
    known = {(name, knob.name) for name, recipe in WITH_KNOBS.items() for knob in recipe.knob}
    assert CHANGED.keys() | SO_ALREADY <= known


@pytest.mark.parametrize(
    ("name", "knob"), [("go", "processor_each"), ("jissoku", "workers"), ("uvicorn", "workers")]
)
def test_as_many_workers_as_cores_is_the_way_back_from_one(name: str, knob: str) -> None:
    made = tuned(RECIPES[name])
    one = next(k.name for k in made.knobs if k.name.startswith("one_"))
    assert said(made.prepared((one, knob))) == said(made.prepared(()))


@pytest.mark.parametrize("name", WITH_KNOBS)
def test_every_knob_predicts_a_counter_that_can_be_had(name: str) -> None:
    for knob in WITH_KNOBS[name].knob:
        at_full_load = knob.counter in {ablation.CORES, ablation.MIGRATIONS}
        assert knob.counter in ablation.COUNTERS | ablation.CLIENT_COUNTERS | SYSTEM_CALLS
        assert (knob.objective is KnobGoal.RATE) is at_full_load, f"{name}: {knob.name}"


def edits_configurations(knob: Knob) -> bool:
    kinds = {*nginx_config.EDITS, ChangeKind.LINE}
    return all(change.kind in kinds for change in knob.change)


# Of modules that are not part of nginx.
OF_MODULES = {"brotli_comp_level"}

NGINX_KNOBS = [
    (name, knob.name)
    for name, recipe in WITH_KNOBS.items()
    if name.startswith("nginx")
    for knob in recipe.knob
    if knob.name not in OF_MODULES
]


@pytest.mark.slow
@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
@pytest.mark.parametrize(("name", "knob"), NGINX_KNOBS)
def test_nginx_accepts_what_a_knob_makes(name: str, knob: str, tmp_path: Path) -> None:
    made = tuned(RECIPES[name])
    values: dict[str, str | tuple[str, ...]] = {
        "run": str(tmp_path),
        "files": str(tmp_path),
        "workers": "2",
        "mask": process.mask((0, 1)),
        "user": Path(tmp_path).owner(),
        "group": Path(tmp_path).group(),
        "listen": RECIPES[name].listen.tcp,
        "port": str(free_port(random.Random(f"{name}/{knob}"))),
    }
    for config in made.prepared((knob,)).config:
        path = tmp_path / config.name
        path.parent.mkdir(exist_ok=True)
        path.write_text(fill_text(config.text, values))
    assert NGINX is not None
    command = [NGINX, "-t", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), "-e", "stderr"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr


def test_the_knobs_of_nginx_stand_where_they_should() -> None:
    text = tuned(RECIPES["nginx"]).prepared(("reuseport", "worker_cpu_affinity")).config[0].text
    assert "listen {listen} default_server reuseport;" in text
    assert text.startswith("worker_cpu_affinity auto {mask};\n")
    assert "upstream block" in tuned(RECIPES["nginx"]).skipped["upstream_keepalive"]
    text = tuned(RECIPES["nginx-proxy"]).prepared(("proxy_http_version",)).config[0].text
    assert "proxy_http_version 1.0;" in text
    assert "1.1" not in text


def test_one_answer_for_a_connection_is_what_it_says(tmp_path: Path) -> None:
    recipe = RECIPES["jissoku"]
    base = prepare(recipe, BuildPaths(cache=tmp_path, files=tmp_path))
    if isinstance(base, UnavailableTarget):
        pytest.skip(base.sentence)
    made = knob_changes.target_of_recipe(recipe, recipe.knob, base)
    for knobs, keeps in (((), True), (("close_each", "one_worker"), False)):
        placement = LaunchOptions(
            port=free_port(random.Random(str(knobs))), cores=available_cores(), workers=1, seed=1
        )
        with process.start(made.prepared(knobs), placement) as running:
            assert launch.wait_until_ready(running, Workload()).keeps_alive is keeps
