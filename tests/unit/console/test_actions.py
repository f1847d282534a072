"""Actions are done once, whatever becomes of their answers."""

import asyncio
from pathlib import Path

import pytest
from fastapi import Response

from penstock.console.action_log import ActionLog
from penstock.console.actions import Actions
from penstock.console.errors import ApiError

ASKED = "POST /api/v1/groups/g/reset? 1"


class Counting:
    """Does something that counts."""

    def __init__(self, body: bytes = b"{}") -> None:
        self.times = 0
        self._body = body

    async def __call__(self) -> Response:
        self.times += 1
        return Response(self._body)


@pytest.fixture
def actions(tmp_path: Path) -> Actions:
    return Actions(ActionLog(tmp_path / "actions.db"))


def test_an_action_whose_answer_is_too_long_to_keep_is_not_done_again(actions: Actions) -> None:
    action = Counting(b" " * 100_000)

    async def twice() -> None:
        await actions.once("ada", "reset-by-10", ASKED, action)
        await actions.once("ada", "reset-by-10", ASKED, action)

    with pytest.raises(ApiError, match="check what it did"):
        asyncio.run(twice())
    assert 1 == action.times


def test_an_action_whose_request_is_cancelled_is_not_done_again(actions: Actions) -> None:
    action = Counting()

    async def cut_off() -> Response:
        await action()
        raise asyncio.CancelledError  # the server ends, and the thread that did it was waited for

    async def twice() -> None:
        with pytest.raises(asyncio.CancelledError):
            await actions.once("ada", "reset-by-10", ASKED, cut_off)
        await actions.once("ada", "reset-by-10", ASKED, action)

    with pytest.raises(ApiError, match="check what it did"):
        asyncio.run(twice())
    assert 1 == action.times
