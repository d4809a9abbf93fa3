"""How the user whose pages are open gets in again, for example after the browser was closed.

A second `jissoku ui` of the same address asks the first one for another one-time link, over an
abstract Unix socket (unix(7)) of this network namespace. Such a name has no permissions, so each
end looks at the other one's user (SO_PEERCRED): the token is given to no other user, and taken from
no other.
"""

import os
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import msgspec

# Before the address that the pages listen on.
NAME = "\0jissoku-ui-"

# Of an answer, which is sent without being asked for.
LIMIT_S = 5.0
SIZE_MAX = 1 << 20

CREDENTIALS = struct.Struct("3i")


class Opened(msgspec.Struct, frozen=True):
    """Pages that are served already: a fresh link to them, and the folders of their runs."""

    link: str
    roots: tuple[str, ...]


def folders(roots: Sequence[Path]) -> tuple[str, ...]:
    return tuple(str(root.absolute()) for root in roots)


def reserved(listen: str) -> socket.socket:
    """The name of an address, for this process alone; OSError: another one has it.

    Of two that start at the same instant both find a port free, and bind it with SO_REUSEPORT.
    """
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        found.bind(f"{NAME}{listen}")
    except OSError:
        found.close()
        raise
    return found


@contextmanager
def answering(listener: socket.socket, answer: Callable[[], Opened]) -> Iterator[None]:
    """Answers processes of the same user during the block."""
    listener.listen()
    Thread(target=_answer, args=[listener, answer], name="fresh links", daemon=True).start()
    try:
        yield
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)  # It ends the thread's accept(2).


def _answer(listener: socket.socket, answer: Callable[[], Opened]) -> None:
    while True:
        try:
            asker, _ = listener.accept()
        except OSError:
            return
        with asker, suppress(OSError):
            asker.settimeout(LIMIT_S)
            if _is_own_user(asker):
                asker.sendall(msgspec.json.encode(answer()))


def ask(listen: str) -> Opened | None:
    """The pages of this user that are served at an address; None: there are none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.settimeout(LIMIT_S)
        try:
            listener.connect(f"{NAME}{listen}")
            if not _is_own_user(listener):
                return None
            with listener.makefile("rb") as answer:
                return msgspec.json.decode(answer.read(SIZE_MAX), type=Opened)
        except (OSError, msgspec.MsgspecError):
            return None


def _is_own_user(other: socket.socket) -> bool:
    found = other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    _, user, _ = CREDENTIALS.unpack(found)
    return bool(user == os.geteuid())
