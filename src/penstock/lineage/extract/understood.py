"""Which facets are understood, and what of an event they are read of."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from penstock.lineage import events
from penstock.lineage.extract import columns, facets, names

_REMEMBERED = 5_000
_SHORT_BYTES = 2_000
_MOST_BYTES = 8_000_000
"""So many are remembered of one kind of facets; then it starts over."""

Readers = dict[str, Callable[[msgspec.Raw], Any]]


def _readers(**types: Any) -> Readers:
    return {name: msgspec.json.Decoder(each).decode for name, each in types.items()}


def _lasting(**types: Any) -> Readers:
    """Return readers of what is short and the same in many events: to find it again is faster than to read it."""
    return {name: _remembering(reader) for name, reader in _readers(**types).items()}


def _remembering(reader: Callable[[Any], Any]) -> Callable[[msgspec.Raw], Any]:
    remembered = lru_cache(_REMEMBERED)(reader)

    def read(facet: msgspec.Raw) -> Any:
        raw = bytes(facet)
        return remembered(raw) if len(raw) < _SHORT_BYTES else reader(raw)

    return read


RUN = _lasting(parent=facets.ParentRun, processing_engine=facets.ProcessingEngine) | _readers(
    nominalTime=facets.NominalTime,
    errorMessage=facets.ErrorMessage,
    tags=facets.Tags,
    jobDependencies=facets.JobDependencies,
    spark_applicationDetails=facets.SparkApplication,
    spark_jobDetails=facets.SparkJob,
    airflow=facets.AirflowTaskFacet,
    airflowDagRun=facets.AirflowDagRunFacet,
    dbt_run=facets.DbtRun,
    flink_job=facets.FlinkJob,
    hive_query=facets.HiveQuery,
    hive_session=facets.HiveSession,
    dataRentgen_run=facets.CustomRun,
    dataRentgen_operation=facets.CustomOperation,
)
JOB = _lasting(jobType=facets.JobType) | _readers(sql=facets.Sql, tags=facets.Tags)
DATASET = _readers(symlinks=facets.Symlinks, lifecycleStateChange=facets.Lifecycle, tags=facets.Tags) | {
    "schema": lambda facet: columns.schema(bytes(facet)),
    "columnLineage": lambda facet: columns.relations(bytes(facet)),
}
INPUT = _readers(inputStatistics=facets.Statistics)
OUTPUT = _readers(outputStatistics=facets.Statistics)


def read(
    found: events.Facets | None,
    readers: Readers,
    known: dict[str, Any],
    unknown: list[tuple[str, bytes]],
) -> None:
    """Sort facets into those that are understood and all others, which stay as they came.

    What is in `known` already is not read again.
    """
    if not found:
        return
    for name, facet in found.items():
        if name in known:
            continue
        reader = readers.get(name)
        if reader is not None:
            try:
                known[name] = reader(facet)
            except (msgspec.DecodeError, RecursionError):
                pass
            else:
                continue
        raw = bytes(facet)
        if raw != b"null":
            unknown.append((names.bounded(name), raw))


class Understood(NamedTuple):
    """What facets say. Nothing of it is changed in place: it may be remembered."""

    known: dict[str, Any]
    unknown: list[tuple[str, bytes]]
    """Names and what they came with."""


_NOTHING = Understood({}, [])
_words = msgspec.json.Encoder().encode


class Remembered:
    """Reads facets that come again and again, byte for byte: events of one run have most of theirs in common."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._understood: dict[bytes, Understood] = {}
        self._bytes = 0

    def read(self, found: events.Facets | None) -> Understood:
        """Return what they say; as `read` does it."""
        if not found:
            return _NOTHING
        words = _words(found)
        understood = self._understood.get(words)
        if understood is None:
            understood = Understood({}, [])
            read(found, self._readers, *understood)
            self._bytes += len(words)
            if self._bytes > _MOST_BYTES:
                self._understood.clear()
                self._bytes = len(words)
            self._understood[words] = understood
        return understood
