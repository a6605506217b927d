"""An HTTP proxy that terminates TLS for every host, with certificates of an authority of its own."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Request:
    """One request; `host` is empty for those that are made to the proxy itself."""

    method: str
    host: str
    path: str
    headers: Message
    body: bytes


@dataclass(frozen=True)
class Answer:
    """Status, content and headers."""

    status: int
    content: bytes
    headers: Mapping[str, str]


class Authority:
    """An authority that signs a certificate for each host, when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._lock = Lock()
        self.file = folder / "authority.pem"
        self.file.write_bytes(self._signed("authority", self._key, authority=True).public_bytes(Encoding.PEM))

    def context(self, host: str) -> ssl.SSLContext:
        """Returns the server's side of TLS for a host."""
        with self._lock:
            if host not in self._contexts:
                key = ec.generate_private_key(ec.SECP256R1())
                file = self._folder / f"{host}.pem"
                private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
                file.write_bytes(private + self._signed(host, key).public_bytes(Encoding.PEM))
                made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                made.load_cert_chain(file)
                self._contexts[host] = made
            return self._contexts[host]

    def _signed(self, name: str, key: ec.EllipticCurvePrivateKey, *, authority: bool = False) -> x509.Certificate:
        now = datetime.now(UTC)
        subject, issuer = (
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each[:64])]) for each in (name, "authority")
        )
        return (
            x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .sign(self._key, hashes.SHA256())
        )


@contextmanager
def listening(folder: Path, answer: Callable[[Request], Answer]) -> Iterator[tuple[str, Path]]:
    """Serves until the context ends; yields the proxy's URL and the file of its authority."""
    authority = Authority(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        host = ""

        def do_CONNECT(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.host = self.path.partition(":")[0]
            self.connection = authority.context(self.host).wrap_socket(self.connection, server_side=True)
            self.rfile = self.connection.makefile("rb")
            self.wfile = self.connection.makefile("wb", 0)
            self.close_connection = False

        def _answer(self) -> None:
            given = answer(Request(self.command, self.host, self.path, self.headers, self._body()))
            self.send_response(given.status)
            for name, value in {**given.headers, "content-length": str(len(given.content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(given.content)

        do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = _answer

        def _body(self) -> bytes:
            if self.headers.get("transfer-encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("content-length") or 0))
            found = b""
            while size := int(self.rfile.readline(), 16):
                found += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return found

        def finish(self) -> None:
            super().finish()
            self.connection.close()

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, name="proxy", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", authority.file
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
