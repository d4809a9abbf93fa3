"""A server with TLS behind a gateway, and certificates by an authority of its own."""

import contextlib
import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.serving.server_process import PATIENCE_S

OPENSSL = shutil.which("openssl")

AUTHORITY = """
[ca]
default_ca = own
[own]
database = {folder}/index
new_certs_dir = {folder}
default_md = sha256
policy = names
unique_subject = no
serial = {folder}/serial
copy_extensions = copy
[names]
commonName = supplied
"""


def openssl(*words: str, stdin: bytes = b"") -> str:
    command = [str(OPENSSL), *words]
    return subprocess.run(command, input=stdin, check=True, capture_output=True).stdout.decode()


def make_pair(folder: Path, *names: str, end: str | None = None) -> tuple[Path, Path]:
    """A certificate with these names, by itself, and its key; their files have the first name.

    Its last day is tomorrow, or `end`.
    """
    certificate, key = folder / f"{names[0]}.crt", folder / f"{names[0]}.key"
    kind = ["-x509", "-days", "2"] if end is None else []
    openssl("req", *kind, *_request(names, key, certificate))
    if end is not None:
        _sign(folder, (certificate, key), ["-selfsign", "-keyfile", str(key)], end)
    return certificate, key


def make_signed_pair(
    folder: Path, *names: str, start: str = "20200101000000Z", end: str = "20491231235959Z"
) -> tuple[Path, Path]:
    """The same by the authority whose certificate is `authority.crt`."""
    authority, authority_key = folder / "authority.crt", folder / "authority.key"
    if not authority.exists():
        openssl("req", "-x509", "-days", "2", *_request(["authority"], authority_key, authority))
    certificate, key = folder / f"signed-{names[0]}.crt", folder / f"signed-{names[0]}.key"
    openssl("req", *_request(names, key, certificate))
    by = ["-cert", str(authority), "-keyfile", str(authority_key)]
    _sign(folder, (certificate, key), by, end, start)
    return certificate, key


def _request(names: list[str] | tuple[str, ...], key: Path, out: Path) -> list[str]:
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    kinds = [f"IP:{name}" if name[0].isdigit() else f"DNS:{name}" for name in names]
    subject = ["-subj", f"/CN={names[0]}", "-addext", f"subjectAltName={','.join(kinds)}"]
    return [*curve, *subject, "-keyout", str(key), "-out", str(out)]


def _sign(
    folder: Path,
    pair: tuple[Path, Path],
    by: list[str],
    end: str,
    start: str = "20200101000000Z",
) -> None:
    certificate, _ = pair
    request, config = certificate.rename(folder / "request"), folder / "config"
    config.write_text(AUTHORITY.format(folder=folder))
    (folder / "index").write_text("")
    times = ["-startdate", start, "-enddate", end]
    files = ["-in", str(request), "-out", str(certificate)]
    own = ["-create_serial", "-notext", "-batch", "-config", str(config)]
    openssl("ca", *own, *by, *times, *files)


class TlsOrigin:
    """An HTTP server with TLS on a port of this machine, each connection with its own thread.

    Attributes:
        names: The names that clients asked for, one for each handshake.
        resumed: Whether each handshake has resumed a session.
        targets: What was asked for, in order.
        accepted: The number of connections, with a handshake or not.
        has_two_handshakes: Set when two are complete.
        is_notified: Set when a client has ended its side with a close_notify.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        """Serves until the end of the context."""
        self.names: list[str | None] = []
        self.resumed: list[bool] = []
        self.targets: list[str] = []
        self.accepted = 0
        self.has_two_handshakes = threading.Event()
        self.is_notified = threading.Event()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate, key)
        self.context.set_alpn_protocols(["h2", "http/1.1"])
        self.context.sni_callback = lambda _socket, name, _context: self.names.append(name)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]

    def __enter__(self) -> Self:
        """Accepts."""
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        why: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Accepts no more."""
        self.listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                plain, _ = self.listener.accept()
                self.accepted += 1
                threading.Thread(target=self._serve, args=[plain], daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        plain.settimeout(PATIENCE_S)
        with (
            contextlib.suppress(OSError, EOFError),
            plain,
            self.context.wrap_socket(plain, server_side=True, suppress_ragged_eofs=False) as secure,
        ):
            self.resumed.append(bool(secure.session_reused))
            if len(self.resumed) == 2:
                self.has_two_handshakes.set()
            while self._answer(secure):
                pass

    def _read_head(self, secure: ssl.SSLSocket) -> tuple[bytes, bytes]:
        """The head of a request and what follows it, or nothing after the last one."""
        head = b""
        while b"\r\n\r\n" not in head:
            part = secure.recv(65536)
            if not part:
                self.is_notified.set()
                return b"", b""
            head += part
        start, rest = head.split(b"\r\n\r\n", 1)
        return start, rest

    def _answer(self, secure: ssl.SSLSocket) -> bool:
        """Whether the connection is kept."""
        head, body = self._read_head(secure)
        if not head:
            return False
        target = head.split()[1].decode()
        self.targets.append(target)
        if target == "/echo":
            _echo(secure, head, body)
            return True
        if target == "/websocket":
            secure.sendall(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n"
                b"Upgrade: websocket\r\n\r\n"
            )
            while part := secure.recv(65536):
                secure.sendall(part)
            secure.unwrap()
            return False
        if target in {"/truncated", "/ended"}:
            secure.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbegun")
            if target == "/ended":
                secure.unwrap()
            return False
        if target == "/late":
            # Until the gateway gives up.
            return bool(self._read_head(secure)[0])
        is_last = target == "/last"
        close = b"Connection: close\r\n" if is_last else b""
        secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n" + close + b"\r\nfound")
        if is_last:
            secure.unwrap()
        return not is_last


def _echo(secure: ssl.SSLSocket, head: bytes, body: bytes) -> None:
    """Sends a body back while it is received."""
    length = head.lower().split(b"content-length:")[1].split(b"\r\n")[0]
    left = int(length)
    secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % left)
    while left:
        part = body or secure.recv(65536)
        if not part:
            raise EOFError
        body = b""
        left -= len(part)
        secure.sendall(part)
