"""Idempotent actions: a request with an action id that is known gets the first answer again.

A double click, and a client that repeats a request because the answer got lost, therefore change nothing twice. Answers
are kept on the disk, the newest thousand, so they outlive the console; failures are not kept, because they changed
nothing. For an action that was interrupted, or whose answer is too long or secret, only its beginning is kept: it is
not done again either.
"""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, ClassVar

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from penstock.clock import clock
from penstock.console.action_log import ActionLog, RecordedAction
from penstock.console.asking import NEEDS, Asker, recognise, token_of
from penstock.console.audit import Entry
from penstock.console.errors import ApiError
from penstock.console.service import console_of
from penstock.errors import PenstockError

HEADER = "X-Action-Id"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_ACTION_ID = re.compile(r"[A-Za-z0-9_.-]{8,64}")
_PREFIX = "/api/v1"
_NOT_AUDITED = ("/searches", "/tails", "/topics/{topic}/favourite")
_LARGEST_KEPT_BYTES = 64 * 1024
_MOST_ABOUT = 500


@dataclass(frozen=True)
class _UnderWay:
    asked: str
    answer: "asyncio.Future[Response]"


class Actions:
    """Finished and running actions, by who asked for them and the ids that they gave."""

    def __init__(self, log: ActionLog) -> None:
        self._log = log
        self._under_way: dict[tuple[str, str], _UnderWay] = {}

    async def once(
        self, who: str, action_id: str, asked: str, do: Callable[[], Awaitable[Response]], *, keeps_answer: bool = True
    ) -> Response:
        """Do it, or return its earlier result; whoever asks while it is running waits for that."""
        waiting = self._under_way.get((who, action_id))
        if waiting is not None:
            _require_same(waiting.asked, asked)
            return await asyncio.shield(waiting.answer)
        known = self._log.begin(who, action_id, asked)
        if known is not None:
            return _answer(known, asked)
        mine: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._under_way[who, action_id] = _UnderWay(asked, mine)
        try:
            answer = await do()
        except BaseException as error:
            if isinstance(error, Exception):  # a request that is cut off may have been done
                self._log.forget(who, action_id)
            mine.set_exception(error if isinstance(error, Exception) else asyncio.CancelledError())
            mine.exception()  # nobody else may be waiting
            raise
        finally:
            del self._under_way[who, action_id]
        mine.set_result(answer)
        if answer.status_code >= HTTPStatus.BAD_REQUEST:
            self._log.forget(who, action_id)
        elif keeps_answer and len(answer.body) <= _LARGEST_KEPT_BYTES:  # that it was begun stays on record in any case
            self._log.end(who, action_id, answer.status_code, bytes(answer.body))
        return answer


def _require_same(known: str, asked: str) -> None:
    if known != asked:
        raise ApiError(HTTPStatus.CONFLICT, "conflict", f"{HEADER} was already used for another request")


def _answer(known: RecordedAction, asked: str) -> Response:
    _require_same(known.asked, asked)
    if known.status is None:
        text = "this was begun before, and its answer is not on record: check what it did, and"
        raise ApiError(HTTPStatus.CONFLICT, "conflict", f"{text} if it has to be done again, send another {HEADER}")
    return Response(known.body, known.status, media_type="application/json")


class ActionRoute(APIRoute):
    """A route whose changes carry an action id. Forms of other sites cannot send that header, either."""

    keeps_answers: ClassVar[bool] = True
    """Whether what was answered is kept on the disk, for whoever sends the same action id again."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap what FastAPI does with a request."""
        handle = super().get_route_handler()
        needed = [role for role, needs in NEEDS.items() if any(each in self.dependencies for each in needs)]

        async def handle_once(request: Request) -> Response:
            asker = recognise(console_of(request), token_of(request))
            if request.method in SAFE_METHODS or asker is None:  # whoever is not let in gets that as the answer
                return await handle(request)
            action_id = request.headers.get(HEADER, "")
            if not _ACTION_ID.fullmatch(action_id):
                message = (
                    f"the request needs the header {HEADER}: 8 to 64 letters, digits and . _ -, new for each action"
                )
                raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, "bad_input", message)
            content = await request.body()
            actions: Actions = request.app.state.actions
            note = partial(_note, self.path, request, asker, action_id)
            try:
                if all(asker.may(role) for role in needed):
                    body = await asyncio.to_thread(self.digest, content, action_id)  # not for all: it may take long
                    asked = f"{request.method} {_path(request)}?{request.url.query} {body}"
                    answer = await actions.once(
                        asker.name, action_id, asked, partial(handle, request), keeps_answer=self.keeps_answers
                    )
                else:  # the same answer, whatever came of it when they might
                    answer = await handle(request)
            except Exception as error:
                note(_outcome(error))
                raise
            note("done")
            return answer

        return handle_once

    def digest(self, body: bytes, action_id: str) -> str:  # noqa: ARG002 - those with secrets need a salt
        """Return the digest of a body, which is kept with the action."""
        return hashlib.sha256(body).hexdigest()


class SecretActionRoute(ActionRoute):
    """A route whose bodies hold a password: nobody must be able to guess it from what is kept."""

    def digest(self, body: bytes, action_id: str) -> str:
        """Return a digest that is slow to compute."""
        return hashlib.scrypt(body, salt=action_id.encode(), n=2**14, r=8, p=1).hex()


class OneTimeAnswerRoute(ActionRoute):
    """A route whose answers hold a secret, which is shown once and kept nowhere."""

    keeps_answers: ClassVar[bool] = False


def note_about(request: Request, words: str) -> None:
    """Note for the audit what a request changes, where its path does not: never a password, and only briefly."""
    request.state.about = words if len(words) <= _MOST_ABOUT else f"{words[: _MOST_ABOUT - 2]} …"


def _note(route: str, request: Request, asker: Asker, action_id: str, outcome: str) -> None:
    """Record an action, unless it changes nothing for others, such as a search through a topic."""
    if route.removeprefix(_PREFIX).startswith(_NOT_AUDITED):
        return
    path = _path(request).removeprefix(_PREFIX)
    query = f"?{request.url.query}" if request.url.query else ""
    console_of(request).audit.note(
        Entry(
            at=clock().now().timestamp(),
            who=asker.name,
            role=asker.role,
            address=request.client.host if request.client else "",
            action=f"{request.method} {path}{query}",
            action_id=action_id,
            outcome=outcome,
            about=getattr(request.state, "about", ""),
        )
    )


def _path(request: Request) -> str:
    """Return the path as it was routed: that of `request.url` lacks line breaks, and so is another name's."""
    path: str = request.scope["path"]
    return path


def _outcome(error: Exception) -> str:
    """Return why nothing was done, without repeating what was sent."""
    if isinstance(error, ApiError):
        return f"refused: {error.body.message}"
    if isinstance(error, PenstockError):
        return f"failed: {error.what}"
    return "refused: not understood" if isinstance(error, RequestValidationError) else "failed: a defect"
