"""nginx in front of a WSGI server on a Unix socket, as one target.

behind_nginx.py FOLDER WORKERS, where FOLDER holds nginx.conf and uwsgi.ini, and the environment's
BEHIND says who stands behind: jissoku (in the uwsgi protocol), jissoku-http, minefield, meinheld,
gunicorn or uwsgi. Each listens on FOLDER/behind.sock. behind_nginx.py --version prints their
versions. Both are started here and end together.
"""

import os
import shutil
import signal
import subprocess
import sys
from importlib import import_module, metadata
from pathlib import Path

HERE = Path(__file__).parent
SITE = Path(os.environ.get("PYTHONPATH", ""))
PACKAGES = ("minefield", "meinheld", "pyuwsgi", "gunicorn")

# Threads keep connections; the default kind of worker closes them.
GUNICORN = [
    *("--worker-class", "gthread", "--threads", "128", "--keep-alive", "75"),
    *("--backlog", "1024", "--log-level", "warning", "--no-control-socket"),
]


def nginx() -> str:
    return shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin") or "nginx"


def commands(folder: str, workers: str) -> list[list[str]]:
    name = os.environ["BEHIND"]
    if name == "uwsgi":
        behind = [sys.executable, str(SITE / "bin" / "uwsgi"), "--ini", f"{folder}/uwsgi.ini"]
    elif name in {"jissoku", "jissoku-http"}:
        protocol = ",uwsgi" if name == "jissoku" else ""
        behind = [sys.executable, "-m", "jissoku", "serve", "wsgi_app:app", "--app-dir", str(HERE)]
        behind += ["--listen", f"unix:{folder}/behind.sock{protocol}", "--workers", workers]
    elif name == "gunicorn":
        behind = [sys.executable, "-m", "gunicorn", "wsgi_app:app", "--pythonpath", str(HERE)]
        behind += ["--bind", f"unix:{folder}/behind.sock", "--workers", workers, *GUNICORN]
    else:
        program = str(HERE / "wsgi_native.py")
        behind = [sys.executable, program, name, f"unix:{folder}/behind.sock", workers]
    return [behind, [nginx(), "-p", folder, "-c", f"{folder}/nginx.conf", "-e", "stderr"]]


def print_version() -> None:
    subprocess.run([nginx(), "-v"], check=True)
    if os.environ.get("BEHIND") == "jissoku":
        module = import_module("jissoku._native")
        sys.stdout.write(f"jissoku {module.__version__} ({module.__build__})\n")
        return
    said = ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES)
    sys.stdout.write(f"{said}\n")


def main() -> None:
    if sys.argv[1] == "--version":
        print_version()
        return
    # After SIGTERM the process leaves the waiting below as by any other end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    children = [subprocess.Popen(command) for command in commands(*sys.argv[1:])]
    try:
        _, status = os.wait()
        sys.exit(os.waitstatus_to_exitcode(status) or 1)
    finally:
        for child in children:
            child.terminate()


main()
