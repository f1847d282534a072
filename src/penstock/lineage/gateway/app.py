"""The gateway's requests.

A request is refused before it costs anything: by its headers, then while its body comes in, then by its shape, and for
the whole body if one event of it cannot be taken. Only then is anything sent, and the answer waits for Kafka's.
"""

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, Response
from starlette.exceptions import HTTPException

from penstock.kafka.connection import Connection
from penstock.lineage.gateway.body import read_body
from penstock.lineage.gateway.counts import Counts
from penstock.lineage.gateway.delivery import Delivery
from penstock.lineage.gateway.events import Reading, Record, any_record, fitting, lineage_record, records
from penstock.lineage.gateway.limits import Buffer, Rate, Share
from penstock.lineage.gateway.options import GatewayOptions
from penstock.lineage.gateway.refusal import Refusal
from penstock.lineage.gateway.topics import Topics

_CREATED = 201
_ABOUT_THE_TOPIC = {403, 404, 413, 422}
"""Answers after which the topic is looked up again: it may not be what it was."""
_EVENT_OVERHEAD_BYTES = 512
"""What librdkafka and Python hold of a record besides its bytes."""
_IN_A_THREAD_BYTES = 256 * 1024
"""Reading a body of this size would keep all other requests waiting."""


class Gateway:
    """What the requests of one gateway share."""

    def __init__(self, connection: Connection, options: GatewayOptions) -> None:
        self.options = options
        self.counts = Counts()
        self.buffer = Buffer(options.limits)
        self.delivery = Delivery(connection, options.limits)
        self.topics = Topics(
            connection, options.topic, options.connect_group, timeout_s=options.limits.answer_timeout_s
        )
        self._rate = Rate(options.limits)
        self._token = None if options.token is None else options.token.reveal().encode()

    def app(self) -> FastAPI:
        """Return the application."""
        app = FastAPI(
            title="Penstock gateway", docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=self._life
        )
        app.add_exception_handler(HTTPException, _plain)
        for path in ("/api/v1/lineage", "/api/v1/lineage/batch", "/v1/openlineage"):
            app.add_api_route(path, self.lineage, methods=["POST"], status_code=_CREATED, response_class=Response)
        app.add_api_route("/topics/{topic}", self.any, methods=["POST"], status_code=_CREATED, response_class=Response)
        app.add_api_route("/monitoring/ping", self.ping, methods=["GET"])
        app.add_api_route("/monitoring/ready", self.ready, methods=["GET"])
        app.add_api_route("/monitoring/metrics", self.metrics, methods=["GET"], response_class=PlainTextResponse)
        return app

    @asynccontextmanager
    async def _life(self, _app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(self.delivery.close)

    async def lineage(self, request: Request) -> Response:
        """Take one OpenLineage event, or an array of them."""
        _no_parameters(request)
        return await self._answer(request, "lineage", lambda: self._take(request, self.options.topic, lineage_record))

    async def any(self, topic: str, request: Request) -> Response:
        """Take one JSON object, or an array of them, for any topic; `?key=` is their key."""
        _no_parameters(request, "key")
        read = any_record(request.query_params.get("key"))
        return await self._answer(request, "topics", lambda: self._take(request, topic, read))

    async def ping(self) -> dict[str, str]:
        """Say that the gateway runs, whether or not Kafka does."""
        return {"status": "ok"}

    async def ready(self) -> Response:
        """Return whether Kafka answers, and has the topic of OpenLineage events."""
        try:
            await self.topics.limits(self.options.topic)
        except Refusal as refusal:
            return refusal.response()
        return Response(b'{"status": "ok"}', media_type="application/json")

    async def metrics(self, request: Request) -> Response:
        """Count what was done."""
        try:
            self._require_token(request)
        except Refusal as refusal:
            return refusal.response()
        gauges = {
            "buffer_bytes": ("Bytes that are being read or not acknowledged.", self.buffer.bytes),
            "buffer_max_bytes": ("Bytes beyond which requests are refused.", self.options.limits.buffer_max_bytes),
            "requests_in_progress": ("Requests that are worked on.", self.buffer.requests),
            "unacknowledged_events": ("Events that Kafka has not acknowledged.", self.delivery.unacknowledged),
            "kafka_away": ("1 while Kafka does not acknowledge.", int(self.delivery.is_away)),
        }
        return PlainTextResponse(self.counts.text(gauges))

    async def _answer(self, request: Request, route: str, take: Callable[[], Awaitable[None]]) -> Response:
        began = time.monotonic()
        try:
            self._require_token(request)
            _require_no_page(request)
            await take()
            response = Response(status_code=_CREATED)
        except Refusal as refusal:
            response = refusal.response()
        self.counts.answer(route, response.status_code, time.monotonic() - began)
        return response

    def _require_token(self, request: Request) -> None:
        if self._token is None:
            return
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not shown:
            raise Refusal(401, "Missing Authorization header")
        if not hmac.compare_digest(shown.strip().encode(), self._token):
            raise Refusal(401, "Invalid token")

    async def _take(self, request: Request, topic: str, read: Reading) -> None:
        limits = self.options.limits
        address = request.client.host if request.client else ""
        with self.buffer.request(address) as share:
            body = await read_body(request, limits, share)
            if len(body) > _IN_A_THREAD_BYTES:
                taken = await asyncio.to_thread(records, body, limits, read)
            else:
                taken = records(body, limits, read)
            size = len(body)
            del body
            self._rate.spend(address, len(taken))
            await self._deliver(topic, taken, share)
            self.counts.accept(len(taken), size)

    async def _deliver(self, topic: str, taken: list[Record], share: Share) -> None:
        share.take(len(taken) * _EVENT_OVERHEAD_BYTES)
        try:
            fitted = fitting(taken, topic, await self.topics.limits(topic))
            await self.delivery.deliver(topic, fitted)
        except Refusal as refusal:
            if refusal.status in _ABOUT_THE_TOPIC:
                self.topics.forget(topic)
            raise


def _no_parameters(request: Request, *known: str) -> None:
    if unknown := sorted(set(request.query_params) - set(known)):
        raise HTTPException(422, f"Unknown parameter: {unknown[0][:100]}")


def _require_no_page(request: Request) -> None:
    """Refuse what a page in somebody's browser sends: a gateway without a token trusts whoever is on this machine."""
    if "origin" in request.headers:
        raise Refusal(403, "The gateway takes nothing from web pages")


async def _plain(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return Refusal(status, str(getattr(error, "detail", "Internal error"))).response()
