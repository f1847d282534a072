"""A client of Kafka Connect's REST interface.

A worker that does not answer is `BrokerUnavailable`. While its group is rebalancing it refuses with 409, and is asked
again for a while. Settings are judged by the worker before anything is made of them; its complaints name the keys. No
redirect is followed, for it could carry the login elsewhere.
"""

import base64
import http.client
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import orjson
from pydantic import BaseModel, Field, ValidationError

from penstock.config.local_services import ServiceAddress
from penstock.errors import BadInput, BrokerUnavailable, Conflict, NotFound, Refused
from penstock.wording import nearest

_TIMEOUT_S = 30.0
_REBALANCE_S = 30.0
_LOOK_EVERY_S = 0.3
_MOST_BYTES = 50_000_000
_LONGEST_WORDS = 500
_LONGEST_CAUSE = 300
_SUCCESS = range(200, 300)


class Connector(BaseModel, frozen=True):
    """A connector and its state."""

    name: str = Field(description="Its name.")
    type: str = Field(description="source or sink.")
    state: str = Field(description="RUNNING, PAUSED, STOPPED, FAILED, UNASSIGNED or RESTARTING.")
    tasks: str = Field(description="How many tasks run, of how many.")
    trace: str = Field("", description="What a connector or task that has failed says.")

    @property
    def is_running(self) -> bool:
        """Whether it and all of its tasks run."""
        running, _, count = self.tasks.partition("/")
        return self.state == "RUNNING" and running == count != "0"

    @property
    def has_failed(self) -> bool:
        """Whether it, or a task of it, has failed."""
        return bool(self.trace)

    @property
    def cause(self) -> str:
        """The root cause in the trace, which is its last one; empty if nothing has failed."""
        lines = self.trace.splitlines()
        causes = [line.strip() for line in lines if line.startswith("Caused by:")] or lines[:1]
        return causes[-1].removeprefix("Caused by:").strip().rstrip(".")[:_LONGEST_CAUSE] if causes else ""


class Task(BaseModel, frozen=True):
    """One task of a connector."""

    task: int = Field(description="Its number.")
    state: str = Field(description="RUNNING, PAUSED, FAILED, UNASSIGNED or RESTARTING.")
    worker: str = Field(description="Address of the worker that runs it.")
    trace: str = Field("", description="What it says if it has failed.")


class ConnectClient:
    """One worker, which answers for its group."""

    def __init__(self, address: ServiceAddress) -> None:
        self.address = address

    def plugins(self) -> list[dict[str, str]]:
        """Return the connectors that can be made: class, type and version."""
        with self._understood():
            found: list[dict[str, str]] = self._ask("GET", "/connector-plugins")
            return sorted(found, key=lambda each: (each.get("type", ""), each.get("class", "")))

    def connectors(self) -> list[Connector]:
        """Return all connectors, by name."""
        with self._understood():
            found = self._ask("GET", "/connectors?expand=status")
            return [_connector(each["status"]) for _, each in sorted(found.items())]

    def connector(self, name: str) -> Connector:
        """Return one connector; raise `NotFound` if there is none."""
        with self._understood():
            return _connector(self._ask("GET", f"/connectors/{_part(name)}/status"))

    def tasks(self, name: str) -> list[Task]:
        """Return the tasks of a connector, by number."""
        with self._understood():
            found = self._ask("GET", f"/connectors/{_part(name)}/status").get("tasks", [])
            tasks = [
                Task(
                    task=each["id"], state=each["state"], worker=each.get("worker_id", ""), trace=each.get("trace", "")
                )
                for each in found
            ]
            return sorted(tasks, key=lambda each: each.task)

    def config(self, name: str) -> dict[str, str]:
        """Return its settings, with secrets as they are named."""
        with self._understood():
            return _texts(self._ask("GET", f"/connectors/{_part(name)}/config"))

    def offsets(self, name: str) -> list[dict[str, Any]]:
        """Return a connector's offsets, in its own format."""
        with self._understood():
            return _mappings(self._ask("GET", f"/connectors/{_part(name)}/offsets").get("offsets", []))

    def complaints(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """Let the worker validate settings; return its complaints by key, empty if it would accept them."""
        if (problem := self._without_plugin(config.get("connector.class"))) is not None:
            return {"connector.class": [problem]}
        with self._understood():
            found = {each["value"]["name"]: each["value"]["errors"] for each in self._judged(config)}
            return {name: errors for name, errors in found.items() if errors}

    def secret_settings(self, config: Mapping[str, str]) -> set[str]:
        """Return which of these settings are secrets, as the plugin says; empty if the plugin is missing."""
        if self._without_plugin(config.get("connector.class")) is not None:
            return set()
        with self._understood():
            judged = self._judged(config)
            secrets = {each["value"]["name"] for each in judged if each["definition"]["type"] == "PASSWORD"}
            return secrets & config.keys()

    def _without_plugin(self, kind: str | None) -> str | None:
        """Return why the worker has no such plugin; None if it has."""
        if not kind:
            return "this key is required"
        known = [each["class"] for each in self.plugins()]
        short = [each.rpartition(".")[2] for each in known]
        if kind in {*known, *short, *(each.removesuffix("Connector") for each in short)}:
            return None
        close = nearest(kind, [*known, *short])
        meant = f"perhaps {close} is meant" if close else "see penstock connect plugins"
        return f"the worker has no plugin '{kind}': {meant}"

    def _judged(self, config: Mapping[str, str]) -> list[dict[str, Any]]:
        path = f"/connector-plugins/{_part(config['connector.class'])}/config/validate"
        return _mappings(self._ask("PUT", path, dict(config))["configs"])

    def require_valid(self, config: Mapping[str, str]) -> None:
        """Raise `BadInput` with all complaints in one line, each with its key."""
        found = self.complaints(config)
        if found:
            listed = "; ".join(f"{name}: {' '.join(errors)}" for name, errors in found.items())
            raise BadInput(f"the worker refuses these settings: {listed}", safe="Nothing was created")

    def put(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector, or change its settings; raise before that if the worker would refuse them."""
        config = {**config, "name": name}
        self.require_valid(config)
        self._ask("PUT", f"/connectors/{_part(name)}/config", config)

    def pause(self, name: str) -> None:
        """Pause its tasks; they keep what they hold."""
        self._ask("PUT", f"/connectors/{_part(name)}/pause")

    def resume(self, name: str) -> None:
        """Resume it."""
        self._ask("PUT", f"/connectors/{_part(name)}/resume")

    def stop(self, name: str) -> None:
        """End its tasks; its settings and offsets stay."""
        self._ask("PUT", f"/connectors/{_part(name)}/stop")

    def restart(self, name: str, *, only_failed: bool = False) -> None:
        """Start it and its tasks again, or only what has failed."""
        query = f"includeTasks=true&onlyFailed={str(only_failed).lower()}"
        self._ask("POST", f"/connectors/{_part(name)}/restart?{query}")

    def restart_task(self, name: str, task: int) -> None:
        """Start one task again."""
        self._ask("POST", f"/connectors/{_part(name)}/tasks/{task}/restart")

    def reset_offsets(self, name: str) -> None:
        """Let a stopped connector start over: its offsets are deleted."""
        self._ask("DELETE", f"/connectors/{_part(name)}/offsets")

    def remove(self, name: str) -> None:
        """Delete a connector; its topics and offsets stay."""
        self._ask("DELETE", f"/connectors/{_part(name)}")

    def _ask(self, method: str, path: str, body: dict[str, str] | None = None) -> Any:
        until = time.monotonic() + _REBALANCE_S
        while True:
            status, content = self._exchange(method, path, None if body is None else orjson.dumps(body))
            if status != http.client.CONFLICT or time.monotonic() > until:
                break
            time.sleep(_LOOK_EVERY_S)
        try:
            answer = orjson.loads(content) if content else None
        except orjson.JSONDecodeError:
            answer = None
            if status in _SUCCESS:
                raise self._nonsense() from None
        if status in _SUCCESS:
            return answer
        raise self._failure(status, answer)

    @contextmanager
    def _understood(self) -> Iterator[None]:
        """Raise `BadInput` for an answer of another shape than Connect's: somebody else may have its port."""
        try:
            yield
        except (TypeError, AttributeError, KeyError, ValidationError):
            raise self._nonsense() from None

    def _nonsense(self) -> BadInput:
        return BadInput(f"{self.address.url} does not answer as Kafka Connect does", fix="Check the address")

    def _failure(self, status: int, answer: Any) -> Exception:
        said = answer.get("message") if isinstance(answer, dict) else None
        words = str(said or f"status {status}").splitlines()[0][:_LONGEST_WORDS]
        if status in {http.client.UNAUTHORIZED, http.client.FORBIDDEN}:
            return Refused(f"{self.address.url} refused the login with status {status}")
        if status == http.client.NOT_FOUND:
            return NotFound(f"there is no such connector: {words}", fix="List them with: penstock connect list")
        if status == http.client.CONFLICT:
            return Conflict(f"Kafka Connect cannot do this now: {words}")
        if status >= http.client.INTERNAL_SERVER_ERROR:
            return BrokerUnavailable(f"Kafka Connect at {self.address.url} failed: {words}")
        return BadInput(f"Kafka Connect refuses this: {words}")

    def _exchange(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        parts = urlsplit(self.address.url)
        host = parts.hostname or ""
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            trust = ssl.create_default_context(cafile=self.address.ca_file)
            connection = http.client.HTTPSConnection(host, parts.port, timeout=_TIMEOUT_S, context=trust)
        else:
            connection = http.client.HTTPConnection(host, parts.port, timeout=_TIMEOUT_S)
        headers = {"Accept": "application/json", **({"Content-Type": "application/json"} if body else {})}
        if self.address.username is not None and self.address.password is not None:
            login = f"{self.address.username}:{self.address.password.reveal()}"
            headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        try:
            self.address.require_ours()
            connection.request(method, parts.path + path, body, headers)
            response = connection.getresponse()
            return response.status, response.read(_MOST_BYTES)
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise BrokerUnavailable(
                f"Kafka Connect at {self.address.url} does not answer: {reason}",
                fix="See: penstock status; start it with: penstock up --connect",
            ) from None
        finally:
            connection.close()


def _texts(answer: Any) -> dict[str, str]:
    return dict(answer.items())


def _mappings(answer: Any) -> list[dict[str, Any]]:
    return [dict(each) for each in answer]


def _connector(status: dict[str, Any]) -> Connector:
    tasks = status.get("tasks", [])
    parts = [status["connector"], *tasks]
    running = sum(1 for each in tasks if each["state"] == "RUNNING")
    return Connector(
        name=status["name"],
        type=str(status.get("type", "")),
        state=status["connector"]["state"],
        tasks=f"{running}/{len(tasks)}",
        trace="\n".join(each["trace"] for each in parts if each.get("trace")),
    )


def _part(name: str) -> str:
    return quote(name, safe="")
