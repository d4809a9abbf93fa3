"""Asks hosts over ssh: the system's client, so that the user's whole configuration of it counts.

Each question is a process of ssh with a fixed command line; see `over_ssh` for the other end.
"""

import shlex
import subprocess
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

import msgspec

from jissoku.errors import InputError, JissokuError
from jissoku.fleet import over_ssh
from jissoku.fleet.fleet_file import Host
from jissoku.report.format import clean

# It asks for nothing, so that a password that is missing is an error; it notices a host that is
# gone within half a minute.
OPTIONS = ("-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=15")

# How long a host may take to answer; its program begins in a second or two.
ANSWER_S = 60.0

# Connections at once: servers of ssh refuse more than some that are not yet authenticated.
AT_ONCE = 8

# Of ssh itself; and of a shell: it cannot be executed, and it is not there.
SSH_FAILED, NOT_EXECUTABLE, NOT_FOUND = 255, 126, 127

# What ssh says, and what helps; the first that is found counts.
REMEDIES = {
    "REMOTE HOST IDENTIFICATION HAS CHANGED": "if that is right, remove its line of known_hosts",
    "Host key verification failed": "log in once by hand, to accept its key",
    "Permission denied": (
        "it must let you in without a password: ssh-copy-id copies your key there, ssh-add loads it"
    ),
    "Could not resolve hostname": "write it as ssh knows it, or add it to ~/.ssh/config",
    "Connection refused": "start its ssh server, or name its port in ~/.ssh/config",
    "": "try by hand what ssh says",
}

Result = TypeVar("Result")
Answer = TypeVar("Answer", bound=msgspec.Struct)


class Ssh:
    """The processes of ssh; those that run are ended by `close`, which any thread may call."""

    def __init__(self, words: Sequence[str], version: str) -> None:
        self._words = tuple(words)
        self._version = version
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_closed = False
        self._lock = threading.Lock()

    def ask(
        self,
        host: Host,
        question: over_ssh.Question,
        kind: type[Answer],
        limit_s: float | None = None,
    ) -> Answer:
        """The host's answer. InputError and JissokuError say why there is none, and what to do."""
        asked = over_ssh.Asked(version=self._version, question=question)
        raw = msgspec.json.encode(asked)
        code, out, err = self._run(
            host, remote_command(host, "fleet", "over-ssh"), raw, limit_s or ANSWER_S
        )
        # A shell's own files for its start may print something before.
        line = out.strip().rpartition(b"\n")[2]
        try:
            reply = msgspec.json.decode(line, type=over_ssh.Answered)
            self._require_version(clean(reply.version))
            if reply.failure:
                raise (InputError if reply.is_input else JissokuError)(clean(reply.failure))
            return msgspec.json.decode(reply.result, type=kind)
        except msgspec.MsgspecError:
            raise self._refusal(host, code, err) from None

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            for process in self._running:
                process.terminate()

    def _run(
        self, host: Host, command: str, given: bytes, limit_s: float
    ) -> tuple[int, bytes, bytes]:
        words = [*self._words, *OPTIONS, host.name, command]
        pipe = subprocess.PIPE
        with self._lock:
            if self._is_closed:
                raise JissokuError("interrupted")
            try:
                process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe)
            except OSError as error:
                raise InputError(f"ssh = {shlex.join(self._words)!r}: {error.strerror}") from error
            self._running.add(process)
        with process:
            try:
                out, err = process.communicate(given, limit_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise JissokuError(
                    f"has not answered within {limit_s:g} s; try what it waits for by hand"
                    f" (`{self._by_hand(host)}`)"
                ) from None
            finally:
                with self._lock:
                    self._running.discard(process)
        return process.returncode, out, err

    def _require_version(self, version: str) -> None:
        if version != self._version:
            raise InputError(
                f"has {version}, and this is {self._version}: install the same version on both"
            )

    def _refusal(self, host: Host, code: int, err: bytes) -> JissokuError:
        text = clean(err.decode(errors="replace")).strip()
        last = text.rpartition("\n")[2].removeprefix("jissoku: ") or f"code {code} and no output"
        if code == SSH_FAILED:
            said, remedy = next(row for row in REMEDIES.items() if row[0] in text)
            shown = next((line for line in text.splitlines() if said and said in line), last)
            return JissokuError(
                f"ssh: {shown.strip().removeprefix('ssh: ')}; {remedy} (`{self._by_hand(host)}`)"
            )
        if code in {NOT_FOUND, NOT_EXECUTABLE}:
            return InputError(
                f"has no program {host.program or 'jissoku'}: {last}; install it there (pip install"
                " 'jissoku[lab]'), or name it: with --program, or as `program` in fleet.toml"
            )
        done, out, _ = self._run(host, remote_command(host, "--version"), b"", ANSWER_S)
        if done == 0:
            self._require_version(clean(out.decode(errors="replace")).strip())
        return JissokuError(f"jissoku fails there: {last}; see `{self._by_hand(host)}`")

    def _by_hand(self, host: Host) -> str:
        return shlex.join((*self._words, host.name))


def remote_command(host: Host, *words: str) -> str:
    """The command line for the shell of a host, of any kind: sh, csh and fish read it alike.

    A path that begins with ~/ is one of the folder in which ssh starts commands.
    """
    program = host.program
    if not program:
        return f'exec env PATH="$PATH:$HOME/.local/bin" jissoku {shlex.join(words)}'
    if program.startswith("~/"):
        program = f"./{program[2:]}"
    return f"exec {shlex.join((program, *words))}"


def on_all(
    hosts: Iterable[Host],
    call: Callable[[Host], Result],
    each: Callable[[Host, Result | JissokuError], object],
    close: Callable[[], object],
) -> None:
    """Calls for all hosts, several at once; `each` has what comes, in the order in which it does.

    An interruption calls `close`, which has to make the calls end.
    """

    def tried(host: Host) -> Result | JissokuError:
        try:
            return call(host)
        except JissokuError as error:
            return error

    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        running = {pool.submit(tried, host): host for host in hosts}
        for done in as_completed(running):
            each(running[done], done.result())
    except BaseException:
        close()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
