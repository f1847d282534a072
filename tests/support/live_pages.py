"""Pages of a console that stay open, as browsers keep them: each has its socket, answers what the page asks of the
browser, and takes the updates. Fifty browsers would be a test of the machine that they run on.
"""

import ast
import asyncio
import json
import re
from typing import Any

import httpx
import socketio

_QUERY = re.compile(r"^ *query: ({.*}),$", re.MULTILINE)
_TIMES = 3


class LivePage:
    """One open page."""

    def __init__(self, address: str, path: str, words: str) -> None:
        self._address, self._path = address, path
        self._words = words
        self._updates = 0
        self.shown = asyncio.Event()
        """Set once it shows these words."""
        self.refreshed = asyncio.Event()
        """Set once something was drawn again three times after that."""

    async def open(self) -> None:
        """Load the page and keep its socket open."""
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            answer = await client.get(self._address + self._path)
        found = _QUERY.search(answer.text)
        assert found is not None, answer.text[:500]
        query = {**ast.literal_eval(found[1]), "tab_id": f"tab-{id(self)}", "document_id": f"document-{id(self)}"}
        query["implicit_handshake"] = "true"  # as JavaScript writes it
        self._socket = socketio.AsyncClient(reconnection=False)

        async def answer_script(message: dict[str, Any]) -> None:
            if message.get("request_id"):
                result = "Europe/Berlin" if "timeZone" in message["code"] else False
                told = {"request_id": message["request_id"], "client_id": query["client_id"], "result": result}
                await self._socket.emit("javascript_response", told)

        self._socket.on("run_javascript", answer_script)
        self._socket.on("update", self._take)
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        await self._socket.connect(
            f"{self._address}?{asked}", socketio_path="/_nicegui_ws/socket.io", transports=["websocket"]
        )

    async def _take(self, message: dict[str, Any]) -> None:
        self._updates += self.shown.is_set()
        if self._words in json.dumps(message, ensure_ascii=False):
            self.shown.set()
        if self._updates >= _TIMES:
            self.refreshed.set()

    async def close(self) -> None:
        """Close it, as somebody who leaves."""
        await self._socket.disconnect()
