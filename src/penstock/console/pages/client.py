"""The REST interface as pages ask it: in this process, as the person who looks, with one action id for each action."""

import secrets
from typing import Any

import httpx
from fastapi import FastAPI

_ADDRESS = "http://127.0.0.1/api/v1"
_LONGEST_S = 90.0


class Failed(Exception):
    """An answer that is an error, in its own words."""

    def __init__(self, error: dict[str, str]) -> None:
        super().__init__(". ".join(part for part in (error["message"], error.get("safe"), error.get("fix")) if part))
        self.code = error["code"]


class Client:
    """Asks for one page."""

    def __init__(self, app: FastAPI, token: str | None, cluster: str = "", address: tuple[str, int] = ("", 0)) -> None:
        # With the address of the browser: the audit says where somebody asked from.
        self._transport = httpx.ASGITransport(app=app, raise_app_exceptions=False, client=address)
        self._cluster = cluster
        """The cluster that the page is about; empty for the project's own."""
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def get(self, path: str, **parameters: Any) -> Any:
        """Ask for something."""
        return await self._ask("GET", path, None, {}, parameters)

    async def act(self, method: str, path: str, body: Any = None, *, action_id: str = "", **parameters: Any) -> Any:
        """Change something; whoever gives the same action id twice has it done once."""
        headers = {"X-Action-Id": action_id or secrets.token_hex(16)}
        return await self._ask(method, path, body, headers, parameters)

    async def _ask(self, method: str, path: str, body: Any, headers: dict[str, str], parameters: dict[str, Any]) -> Any:
        named = {"cluster": self._cluster, **parameters}
        given = {name: value for name, value in named.items() if value not in {None, ""}}
        async with httpx.AsyncClient(transport=self._transport, trust_env=False, timeout=_LONGEST_S) as client:
            answer = await client.request(
                method, f"{_ADDRESS}{path}", json=body, params=given, headers={**self._headers, **headers}
            )
        if answer.is_error:
            raise Failed(answer.json()["error"])
        return answer.json()
