"""The files for Kubernetes and SLURM: checked by their validators, and run."""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import pytest

from jissoku.cli import agent as agent_command
from jissoku.cli.frame import version_line
from jissoku.fleet import hosts
from jissoku.fleet.fleet_file import read_fleet
from jissoku.fleet.hosts import HostState
from jissoku.system.measurement_lock import PATH_VARIABLE
from tests.conftest import JISSOKU
from tests.fleet.test_two_hosts import eventually
from tests.fleet.trials import free_address

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "examples" / "fleet"
KUBERNETES, SLURM = FOLDER / "kubernetes.yaml", FOLDER / "slurm.sh"

# The oldest version that clusters have support for, and a new one.
VERSIONS = ("1.28", "1.36")

# Where an agent of a Pod has its copy.
KEYS = "/tmp/keys"  # noqa: S108 - of a Pod's own file system


@pytest.fixture(scope="module")
def resources() -> dict[str, Any]:
    """Those of the file, by their kinds."""
    yaml = pytest.importorskip("yaml", reason="kubernetes-validate brings it along")
    return {one["kind"]: one for one in yaml.safe_load_all(KUBERNETES.read_text())}


def validated(file: Path, version: str) -> "subprocess.CompletedProcess[str]":
    pytest.importorskip("kubernetes_validate", reason="there is no kubernetes-validate")
    words = [sys.executable, "-m", "kubernetes_validate", "--strict", "-k", version, str(file)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_the_schema_of_kubernetes_accepts_the_resources(version: str) -> None:
    done = validated(KUBERNETES, version)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout + done.stderr).count("passed for resource") == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("podManagementPolicy:", "podManagement:"),
        ("replicas: 3 ", "replicas: three "),
        ("hostNetwork: true", "hostNetwork: [true]"),
        ("requiredDuringSchedulingIgnoredDuringExecution:", "requiredDuringScheduling:"),
    ],
)
def test_the_schema_refuses_what_is_wrong(tmp_path: Path, old: str, new: str) -> None:
    text = KUBERNETES.read_text()
    assert old in text
    file = tmp_path / "kubernetes.yaml"
    file.write_text(text.replace(old, new))
    assert validated(file, VERSIONS[-1]).returncode != 0


def test_each_agent_has_a_node_and_cores_of_its_own(resources: dict[str, Any]) -> None:
    stateful = resources["StatefulSet"]["spec"]
    pod = stateful["template"]["spec"]
    labels = stateful["template"]["metadata"]["labels"]
    assert pod["hostNetwork"] is True
    (term,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    for selector in (term["labelSelector"], stateful["selector"]):
        assert selector["matchLabels"] == labels
    assert resources["Service"]["spec"]["selector"] == labels
    for one in (*pod["containers"], *resources["Pod"]["spec"]["containers"]):
        resources_of_pod = one["resources"]
        assert resources_of_pod["requests"] == resources_of_pod["limits"]
        assert int(resources_of_pod["limits"]["cpu"]) > 0
        assert not {"readinessProbe", "livenessProbe"} & one.keys()


def test_names_are_those_of_the_file_of_the_fleet(resources: dict[str, Any]) -> None:
    fleet = read_fleet(FOLDER / "fleet.toml")
    stateful, service = resources["StatefulSet"], resources["Service"]
    names = [f"{stateful['metadata']['name']}-{number}" for number in range(3)]
    assert stateful["spec"]["replicas"] == len(fleet.hosts)
    assert stateful["spec"]["serviceName"] == service["metadata"]["name"]
    (port,) = {one["port"] for one in service["spec"]["ports"]}
    assert [host.address for host in fleet.hosts] == [
        f"{name}.{service['metadata']['name']}:{port}" for name in names
    ]


def script_of(pod: dict[str, Any], folder: Path) -> list[str]:
    """What a Pod runs, with its folders below another one."""
    (container,) = pod["containers"]
    words = [*container["command"], *container["args"]]
    mounted = [one["mountPath"] for one in container["volumeMounts"]]
    pattern = rf"(?<![\w.])({'|'.join([*mounted, KEYS])})(?=[/ ;]|$)"
    return [re.sub(pattern, lambda found: str(folder) + found[0], word) for word in words]


@pytest.mark.slow
def test_the_pods_run_agents_and_a_client_that_reaches_them(
    resources: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On this host, under a name of loopback, with keys as the comment of the file makes them."""
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl")
    address = free_address()
    monkeypatch.chdir(tmp_path)
    text = (FOLDER / "fleet.toml").read_text().split("[[host]]")[1]
    own = text.replace("jissoku-0.jissoku:7470", f"localhost:{address.port}")
    Path("fleet.toml").write_text(f"[[host]]{own}")
    hosts.init((), Path("fleet.toml"), "ssh", "", version_line())
    client = resources["Pod"]["spec"]
    for folder, sources in {
        "agent/keys": Path("fleet.keys").glob("[!c]*"),
        "client/keys": Path("fleet.keys").glob("[!a]*"),
    }.items():
        Path(folder).mkdir(parents=True)
        for source in sources:
            shutil.copy(source, folder)
    shutil.copy("fleet.keys/ca.crt", "agent/keys")
    for path in ("client/fleet", "client/tmp/fleet", "agent/records", "agent/tmp"):
        Path(path).mkdir(parents=True)
    shutil.copy("fleet.toml", "client/fleet")
    programs = tmp_path / "programs"
    programs.mkdir()
    program = programs / "jissoku"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(JISSOKU)} "$@"\n')
    program.chmod(0o755)

    words = script_of(client, tmp_path / "client")
    words[-1] = words[-1].replace("exec sleep infinity", "")
    subprocess.run(words, check=True, cwd="client/tmp/fleet")

    words = script_of(resources["StatefulSet"]["spec"]["template"]["spec"], tmp_path / "agent")
    words[-1] = (
        words[-1]
        .replace("$POD_NAME.jissoku:7470", f"localhost:{address.port}")
        .replace("--load-to jissoku-0.jissoku", "--load-to localhost")
    )
    env = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "POD_NAME": "jissoku-0"}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said.startswith("Listening on localhost:"), said
        found: list[object] = []
        fleet = read_fleet(tmp_path / "client" / "tmp" / "fleet" / "fleet.toml")
        hosts.look(fleet, version_line(), lambda _, state: found.append(state))
        process.send_signal(signal.SIGTERM)
    assert isinstance(found[0], HostState), found


def test_the_shell_of_the_job_has_no_mistakes() -> None:
    program = shutil.which("shellcheck")
    if program is None:
        pytest.skip("there is no shellcheck")
    done = subprocess.run([program, str(SLURM)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_commands_in_the_files_have_the_options_that_are_written(resources: dict[str, Any]) -> None:
    pod = resources["StatefulSet"]["spec"]["template"]["spec"]
    texts = [pod["containers"][0]["args"][0], SLURM.read_text()]
    commands = [re.search(r"exec jissoku agent ([^\n']+)", text) for text in texts]
    for found in commands:
        assert found is not None
        agent_command.agent.make_context("agent", shlex.split(found[1]))
    with pytest.raises(click.NoSuchOption):
        agent_command.agent.make_context("agent", ["--listen", "h:1", "--folder", "x"])


CLUSTER = """
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool.%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
MpiDefault=none
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP
"""

NODES = ("127.0.0.11", "127.0.0.12")


class Cluster:
    """A cluster of SLURM with two nodes, which are this host."""

    def __init__(self, place: Path, held: ExitStack) -> None:
        self.place = place
        self.env = os.environ | {"SLURM_CONF": str(place / "slurm.conf")}
        ports = [free_address().port for _ in range(3)]
        nodes = [
            f"NodeName={node} NodeHostname=localhost Port={port} CPUs=1"
            for node, port in zip(NODES, ports, strict=False)
        ]
        text = CLUSTER.format(port=ports[-1], place=place, nodes="\n".join(nodes))
        (place / "slurm.conf").write_text(text)
        (place / "state").mkdir()
        self._start(held, "slurmctld", "-D", "-c")
        for node in NODES:
            (place / f"spool.{node}").mkdir()
            self._start(held, "slurmd", "-D", "-N", node)

    def _start(self, held: ExitStack, name: str, *words: str) -> None:
        program = shutil.which(name, path="/usr/sbin:/usr/local/sbin")
        assert program is not None
        with (self.place / f"{name}.log").open("ab") as log:
            process = subprocess.Popen([program, *words], env=self.env, stdout=log, stderr=log)
        held.callback(process.wait)
        held.callback(process.terminate)

    def run(self, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            words, env=self.env | env, cwd=self.place, capture_output=True, text=True, check=False
        )

    def is_idle(self) -> bool:
        return self.run("sinfo", "--noheader", "--format=%t").stdout.split() == ["idle"]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Its folder has a short name, since it has sockets."""
    if os.geteuid() != 0 or not shutil.which("sbatch"):
        pytest.skip("a cluster of SLURM needs root, slurm-client, slurmctld and slurmd")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as held:
        found = Cluster(Path(folder), held)
        try:
            eventually(found.is_idle)
        except AssertionError:
            pytest.skip(
                f"SLURM does not run here: {(found.place / 'slurmd.log').read_text()[-300:]}"
            )
        yield found


@pytest.mark.slow
def test_slurm_runs_the_job_on_two_nodes_and_leaves_nothing(cluster: Cluster) -> None:
    """In place of the comparison it asks who is there."""
    place = cluster.place
    (place / "programs").mkdir()
    program = place / "programs" / "jissoku"
    program.write_text(
        f"#!/bin/sh\nexport {PATH_VARIABLE}={place}/lock\n"
        f'[ "$1" != compare ] || {{ echo "$@" >words; set -- fleet hosts; }}\n'
        f'exec {shlex.join(JISSOKU)} "$@"\n'
    )
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    bad = place / "bad.sh"
    bad.write_text(SLURM.read_text().replace("--exclusive", "--exlusive"))
    done = cluster.run("sbatch", "--test-only", "--nodes=2", str(bad))
    assert "unrecognized option '--exlusive'" in done.stderr
    done = cluster.run("sbatch", "--test-only", "--nodes=2", str(SLURM))
    assert done.returncode == 0, done.stderr
    words = (
        "sbatch",
        "--wait",
        "--parsable",
        "--nodes=2",
        str(SLURM),
        "nginx",
        "go",
        "--for",
        "3m",
    )
    done = cluster.run(*words, PATH=path)
    assert done.returncode == 0, done.stdout + done.stderr + (place / "slurmd.log").read_text()
    number = done.stdout.strip()
    output = (place / f"jissoku-{number}.out").read_text()
    assert done.returncode == 0, output
    assert "2 of 2 hosts have jissoku " in output
    fleet = place / f"jissoku-{number}"
    assert (fleet / "words").read_text() == (
        "compare --fleet fleet.toml --out run nginx go --for 3m\n"
    )
    names = [host["name"] for host in tomllib.loads((fleet / "fleet.toml").read_text())["host"]]
    assert names == list(NODES)
    assert not (fleet / "fleet.keys").exists()
    said = (fleet / "agents.log").read_text()
    assert said.count("Listening on ") == said.count("Ending.") == len(NODES)
    for node in NODES:
        socket.create_server((node, 7470)).close()  # No agent has it any more.
