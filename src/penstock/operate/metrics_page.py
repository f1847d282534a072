"""The server of a metrics page, which runs inside a driver: clients cannot use up its files or threads.

Prometheus' own has a thread for every connection, and waits in each for ever. A stranger who opens connections and
says nothing would use up the files that a process may have open, and the next batch would fail for want of one.

On the loopback it answers only to names of this machine: a page in a browser can have its own name lead there.
"""

import socket
import threading
from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from penstock.loopback import host_name, is_loopback

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

_MOST_AT_ONCE = 16
_SAYS_NOTHING_S = 5.0


class _Answer(WSGIRequestHandler):
    timeout = _SAYS_NOTHING_S

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that it has there
        """Log nothing."""


class MetricsPage(ThreadingWSGIServer):
    """Answers a limited number at once; a connection beyond that is closed."""

    request_queue_size = 128
    """Those that wait to be looked at; with five, Python's own number, Prometheus would wait behind any crowd."""

    def __init__(self, host: str, port: int, registry: CollectorRegistry) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._places = threading.BoundedSemaphore(_MOST_AT_ONCE)
        super().__init__((host, port), _Answer)
        page = make_wsgi_app(registry)
        self.set_app(_to_names_of_here(page) if is_loopback(host) else page)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, if one is free."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and free the thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore it: the client has gone."""


def _to_names_of_here(page: "WSGIApplication") -> "WSGIApplication":
    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if is_loopback(host_name(environ.get("HTTP_HOST", ""))):
            return page(environ, start_response)
        refused = HTTPStatus.FORBIDDEN
        start_response(f"{refused.value} {refused.phrase}", [("Content-Type", "text/plain")])
        return [b"only requests to a name of this machine are answered\n"]

    return answer
