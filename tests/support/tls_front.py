"""TLS in front of a real server, for clients that show a certificate: what it lets in goes on as it came."""

import http.client
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from penstock.broker.certificates import Certificates
from penstock.config.secrets_folder import SecretsFolder

_PEM = serialization.Encoding.PEM


def client_files(files: SecretsFolder, folder: Path, password: str) -> tuple[Path, Path]:
    """Make a client's certificate, and its key in a file of its own, behind a password."""
    Certificates(files).ensure_node(2, "127.0.0.1")
    whole = files.node_pem(2).read_bytes()
    certificate, key = folder / "client.pem", folder / "client.key"
    certificate.write_bytes(x509.load_pem_x509_certificate(whole).public_bytes(_PEM))
    private = serialization.load_pem_private_key(whole, password=None)
    encryption = serialization.BestAvailableEncryption(password.encode())
    key.write_bytes(private.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, encryption))
    return certificate, key


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Say nothing about clients that it does not let in."""


@contextmanager
def tls_front(files: SecretsFolder, host: str, port: int) -> Iterator[str]:
    """Serve on a free port for clients with a certificate of the CA; return the address."""
    Certificates(files).ensure_ca()
    Certificates(files).ensure_node(1, "127.0.0.1")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files.ca_pem)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(files.node_pem(1))

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            behind = http.client.HTTPConnection(host, port, timeout=60)
            behind.request(self.command, self.path, body or None, {**self.headers, "Host": f"{host}:{port}"})
            answer = behind.getresponse()
            content = answer.read()
            behind.close()
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - as http.server has them

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with _Server(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
