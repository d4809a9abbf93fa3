"""Two trials, in the first of which the network is cut; for a process in a network namespace.

python -m tests.fleet.cut_network HOST:PORT KEYS NAMESPACE SECONDS

Prints as JSON the failure and the failed checks of both trials, and why the host was lost.
"""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from jissoku import inference
from jissoku.cli.frame import version_line
from jissoku.errors import HostLost
from jissoku.fleet.connecting import connected
from jissoku.fleet.keys import CLIENT, ListenAddress, read_keys
from tests.fleet.trials import in_window, started


def main() -> None:
    """Measures through an agent that runs already."""
    listen, keys, namespace, seconds = sys.argv[1:]
    address = ListenAddress.parse(listen, "HOST:PORT")

    def link(state: str) -> None:
        found = "ip link set $(ls /sys/class/net | grep jsk) "
        words = ["ip", "netns", "exec", namespace, "sh", "-c", found + state]
        subprocess.run(words, check=True)

    def cut() -> None:
        link("down")
        threading.Timer(float(seconds), link, ("up",)).start()

    seen, lost = [], ""
    with (
        pytest.MonkeyPatch.context() as patched,
        connected(address, read_keys(Path(keys), CLIENT), version_line()) as host,
    ):
        try:
            for fault in (cut, lambda: None):
                with started(host) as servers:
                    in_window(patched, fault)
                    trial = servers.measured()
                failure = trial.failure
                seen.append(
                    {
                        "failure": failure and {"arm": failure.arm, "reason": failure.reason},
                        "checks": [str(one) for one in inference.trial_checks(trial)],
                    }
                )
        except HostLost as error:
            lost = str(error)
    sys.stdout.write(json.dumps({"trials": seen, "lost": lost}))


if __name__ == "__main__":
    main()
