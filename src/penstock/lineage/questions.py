"""Questions about lineage, asked of a store on this machine or of a service elsewhere: the answers are the same."""

import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Protocol, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from penstock.errors import BadInput, NotFound, Refused, SinkUnavailable
from penstock.lineage.shapes.catalogue import DatasetDetailed, LocationDetailed
from penstock.lineage.shapes.lineage import JobHierarchy, Lineage
from penstock.lineage.shapes.page import Page
from penstock.lineage.shapes.parameters import (
    BatchesQuery,
    DatasetLineageQuery,
    DatasetsQuery,
    HierarchyQuery,
    JobLineageQuery,
    JobsQuery,
    LocationsQuery,
    OperationLineageQuery,
    OperationsQuery,
    Parameters,
    RunLineageQuery,
    RunsQuery,
    SearchParameters,
)
from penstock.lineage.shapes.runs import JobDetailed, OperationDetailed, RunDetailed
from penstock.lineage.shapes.search import Batch, SearchResult
from penstock.loopback import is_loopback
from penstock.secret import Secret

AnyLineageQuery = DatasetLineageQuery | JobLineageQuery | RunLineageQuery | OperationLineageQuery
Answer = TypeVar("Answer", bound=BaseModel)
_TIMEOUT_S = 60
_MOST_BYTES = 512 * 1024 * 1024
_PATHS: dict[type[BaseModel], str] = {
    DatasetLineageQuery: "datasets",
    JobLineageQuery: "jobs",
    RunLineageQuery: "runs",
    OperationLineageQuery: "operations",
}


class Questions(Protocol):
    """Whom the commands ask."""

    def lineage(self, query: AnyLineageQuery) -> Lineage:
        """Return where something comes from, and what is made from it."""

    def locations(self, query: LocationsQuery) -> Page[LocationDetailed]:
        """Return a page of locations."""

    def datasets(self, query: DatasetsQuery) -> Page[DatasetDetailed]:
        """Return a page of datasets."""

    def jobs(self, query: JobsQuery) -> Page[JobDetailed]:
        """Return a page of jobs."""

    def runs(self, query: RunsQuery) -> Page[RunDetailed]:
        """Return a page of runs."""

    def operations(self, query: OperationsQuery) -> Page[OperationDetailed]:
        """Return a page of operations."""

    def hierarchy(self, query: HierarchyQuery) -> JobHierarchy:
        """Return which jobs a job belongs to, starts, waits for and is waited for."""

    def batches(self, query: BatchesQuery) -> Page[Batch]:
        """Return a page of batches."""

    def search(self, query: SearchParameters) -> Page[SearchResult]:
        """Return a page of whatever has a name."""


class Service:
    """A service that `penstock lineage serve` runs."""

    def __init__(self, url: str, token: Secret | None = None) -> None:
        try:
            parts = urllib.parse.urlsplit(url)
            host = parts.hostname if parts.port != 0 and "@" not in url and not parts.query else None
        except ValueError:  # a port, or brackets, that can be none
            host = None
        if not host or parts.scheme not in {"http", "https"}:
            # It is not repeated: people write a password or a token there.
            raise BadInput(
                "the address of a lineage service is like http://HOST:PORT or https://HOST, without a login",
                fix="Name a personal token with --token-file",
            )
        if token is not None and parts.scheme == "http" and not is_loopback(host):
            raise BadInput("a token is not sent where everybody on the way can read it", fix="Use an https address")
        self._url = url.rstrip("/")
        self._token = token
        # A proxy of the environment's would read what is meant for this machine.
        around = [urllib.request.ProxyHandler({})] if is_loopback(host) else []
        self._opener = urllib.request.build_opener(*around)

    def lineage(self, query: AnyLineageQuery) -> Lineage:
        """Return where something comes from, and what is made from it."""
        return self._get(f"{_PATHS[type(query)]}/lineage", query, Lineage)

    def locations(self, query: LocationsQuery) -> Page[LocationDetailed]:
        """Return a page of locations."""
        return self._get("locations", query, Page[LocationDetailed])

    def datasets(self, query: DatasetsQuery) -> Page[DatasetDetailed]:
        """Return a page of datasets."""
        return self._get("datasets", query, Page[DatasetDetailed])

    def jobs(self, query: JobsQuery) -> Page[JobDetailed]:
        """Return a page of jobs."""
        return self._get("jobs", query, Page[JobDetailed])

    def runs(self, query: RunsQuery) -> Page[RunDetailed]:
        """Return a page of runs."""
        return self._get("runs", query, Page[RunDetailed])

    def operations(self, query: OperationsQuery) -> Page[OperationDetailed]:
        """Return a page of operations."""
        return self._get("operations", query, Page[OperationDetailed])

    def hierarchy(self, query: HierarchyQuery) -> JobHierarchy:
        """Return which jobs a job belongs to, starts, waits for and is waited for."""
        return self._get("jobs/hierarchy", query, JobHierarchy)

    def batches(self, query: BatchesQuery) -> Page[Batch]:
        """Return a page of batches."""
        return self._get("batches", query, Page[Batch])

    def search(self, query: SearchParameters) -> Page[SearchResult]:
        """Return a page of whatever has a name."""
        return self._get("search", query, Page[SearchResult])

    def _get(self, path: str, query: Parameters, answer: type[Answer]) -> Answer:
        parameters = query.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
        url = f"{self._url}/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}"
        request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - http or https only
        if self._token is not None:
            request.add_unredirected_header("Authorization", f"Bearer {self._token.reveal()}")
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as response:
                return answer.model_validate_json(response.read(_MOST_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(self._url, error.code, error.read(_MOST_BYTES)) from None
        except (OSError, urllib.error.URLError) as error:
            why = getattr(error, "reason", error)
            raise SinkUnavailable(
                f"the lineage service at {self._url} does not answer: {why}",
                fix="Start it with: penstock lineage serve",
            ) from None
        except ValidationError:
            raise BadInput(f"{self._url} answers, but not as a lineage service of this version does") from None


def _refusal(url: str, status: int, body: bytes) -> Exception:
    try:
        message = str(orjson.loads(body)["error"]["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        message = HTTPStatus(status).phrase
    what = f"the lineage service at {url} says: {message}"
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return Refused(what, fix="Name a personal token with --token-file")
    if status == HTTPStatus.NOT_FOUND:
        return NotFound(what)
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        return SinkUnavailable(what)
    return BadInput(what)


class Store:
    """A store, asked without a service."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def lineage(self, query: AnyLineageQuery) -> Lineage:
        """Return where something comes from, and what is made from it."""
        from penstock.lineage.query.lineage import lineage
        from penstock.lineage.query.walk import Start
        from penstock.lineage.query.window import Window

        kind: Any = _PATHS[type(query)].upper().removesuffix("S")
        return lineage(
            self._connection,
            Start(kind, query.start_node_id),
            direction=query.direction,
            granularity=getattr(query, "granularity", "OPERATION"),
            depth=query.depth,
            window=Window(query.since, query.until),
            with_columns=query.include_column_lineage,
        )

    def locations(self, query: LocationsQuery) -> Page[LocationDetailed]:
        """Return a page of locations."""
        from penstock.lineage.query import lists

        return lists.locations(self._connection, query)

    def datasets(self, query: DatasetsQuery) -> Page[DatasetDetailed]:
        """Return a page of datasets."""
        from penstock.lineage.query import lists

        return lists.datasets(self._connection, query)

    def jobs(self, query: JobsQuery) -> Page[JobDetailed]:
        """Return a page of jobs."""
        from penstock.lineage.query import lists

        return lists.jobs(self._connection, query)

    def runs(self, query: RunsQuery) -> Page[RunDetailed]:
        """Return a page of runs."""
        from penstock.lineage.query import lists

        return lists.runs(self._connection, query)

    def operations(self, query: OperationsQuery) -> Page[OperationDetailed]:
        """Return a page of operations."""
        from penstock.lineage.query import lists

        return lists.operations(self._connection, query)

    def hierarchy(self, query: HierarchyQuery) -> JobHierarchy:
        """Return which jobs a job belongs to, starts, waits for and is waited for."""
        from penstock.lineage.query.hierarchy import hierarchy

        return hierarchy(self._connection, query)

    def batches(self, query: BatchesQuery) -> Page[Batch]:
        """Return a page of batches."""
        from penstock.lineage.query import search

        return search.batches(self._connection, query)

    def search(self, query: SearchParameters) -> Page[SearchResult]:
        """Return a page of whatever has a name."""
        from penstock.lineage.query import search

        return search.search(self._connection, query)


@contextmanager
def of_store(address: Any) -> Iterator[Store]:
    """Yield the questions to a store."""
    from penstock.lineage.query.bounded import bound
    from penstock.lineage.store.database import explained, open_engine

    engine = open_engine(address)
    try:
        with explained(address), engine.connect() as connection, bound(connection):
            yield Store(connection)
    finally:
        engine.dispose()
