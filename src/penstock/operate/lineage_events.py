"""What a pipeline did, as OpenLineage events: one when it starts, one for each batch, one when it ends.

A run of a driver is a run of the job with the pipeline's name. A batch is a run of its own with the driver's
as parent, and its facet `penstock_batch` says which offsets of which topics were read, and what each sink got.
"""

import datetime
import os
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any
from uuid import UUID

from penstock.driver.batch import BatchReport
from penstock.driver.column_lineage import MadeColumns, Uses
from penstock.pipeline.spec import PipelineSpec
from penstock.record.target import Target
from penstock.uuid7 import uuid7

Event = dict[str, Any]
_PRODUCER = f"urn:penstock:{version('penstock')}"
_SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FACETS = "https://openlineage.io/spec/facets"
_INDIRECT = {"FILTER", "JOIN", "GROUP_BY", "SORT", "WINDOW", "CONDITIONAL"}


@dataclass(frozen=True)
class Dataset:
    """What is read or written, by OpenLineage's rules for names."""

    namespace: str
    name: str

    @classmethod
    def of(cls, target: Target, bootstrap_servers: str) -> "Dataset":
        """Return the name of a topic, a folder or a table."""
        if target.kind == "topic":
            return cls(f"kafka://{bootstrap_servers}", target.name)
        if target.kind == "table" and not target.name.startswith("/"):
            server, database, table = target.name.split("/", 2)
            return cls(f"postgres://{server}", f"{database}.{table}")
        return cls("file", target.name)


@dataclass(frozen=True)
class Written:
    """What one sink writes to."""

    sink: str
    dataset: Dataset


class PipelineEvents:
    """Makes the events of one run of a driver."""

    def __init__(self, spec: PipelineSpec, namespace: str, started: datetime.datetime) -> None:
        self._spec = spec
        self._namespace = namespace
        self.run_id = run_id(started)

    def run(self, kind: str, at: datetime.datetime, reason: str = "") -> Event:
        """Return the event of the driver's own run: START, COMPLETE, FAIL or ABORT."""
        facets = {"errorMessage": _facet("ErrorMessageRunFacet", message=reason, programmingLanguage="python")}
        return self._event(kind, at, self.run_id, self._spec.name, facets if reason else {}, "PIPELINE")

    def batch(
        self,
        report: BatchReport,
        at: datetime.datetime,
        sources: Iterable[Dataset],
        written: Iterable[Written],
        made: MadeColumns | None,
    ) -> Event:
        """Return the event of a batch that is in every sink."""
        began = at - datetime.timedelta(seconds=report.seconds)
        facets = {
            "parent": _facet(
                "ParentRunFacet",
                run={"runId": str(self.run_id)},
                job={"namespace": self._namespace, "name": self._spec.name},
            ),
            "penstock_batch": _facet(
                "PenstockBatchRunFacet",
                batch=report.batch,
                startedAt=_time(began),
                offsets=[
                    {
                        "topic": each.topic,
                        "topicId": each.topic_id,
                        "partition": each.partition,
                        "start": start,
                        "end": report.ends.get(each, start),
                    }
                    for each, start in sorted(report.starts.items())
                ],
                sinks={name: vars(count) for name, count in report.sinks.items()},
                dead=report.dead,
            ),
        }
        event = self._event("COMPLETE", at, run_id(began), f"{self._spec.name}.batch", facets, "BATCH")
        read, inputs = _statistics("inputStatistics", report.read), list(sources)
        event["inputs"] = [
            {**vars(each), "facets": {}, "inputFacets": read if len(inputs) == 1 else {}} for each in inputs
        ]
        event["outputs"] = [
            {
                **vars(each.dataset),
                "facets": {} if made is None else _columns(made, inputs),
                "outputFacets": _statistics("outputStatistics", report.sinks[each.sink].written),
            }
            for each in written
            if each.sink in report.sinks
        ]
        return event

    def _event(self, kind: str, at: datetime.datetime, run: UUID, job: str, facets: Event, job_type: str) -> Event:
        processing = "BATCH" if job_type == "BATCH" or self._spec.speed == "scheduled" else "STREAMING"
        about = _facet("JobTypeJobFacet", processingType=processing, integration="PENSTOCK", jobType=job_type)
        return {
            "eventType": kind,
            "eventTime": _time(at),
            "producer": _PRODUCER,
            "schemaURL": _SPEC,
            "run": {"runId": str(run), "facets": facets},
            "job": {"namespace": self._namespace, "name": job, "facets": {"jobType": about}},
            "inputs": [],
            "outputs": [],
        }


def run_id(at: datetime.datetime) -> UUID:
    """Return a UUIDv7: the time to the millisecond, and the rest by chance."""
    return uuid7(int(at.timestamp() * 1000), int.from_bytes(os.urandom(10)))


def _time(at: datetime.datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _facet(name: str, **fields: Any) -> Event:
    return {"_producer": _PRODUCER, "_schemaURL": f"{_FACETS}/{name}.json", **fields}


def _statistics(name: str, rows: int) -> Event:
    kind = f"{name[0].upper()}{name[1:]}"
    return {name: _facet(f"{kind}{'In' if name.startswith('in') else 'Out'}putDatasetFacet", rowCount=rows)}


def _columns(made: MadeColumns, inputs: list[Dataset]) -> Event:
    """Name the columns, and say of which ones each was made; of several inputs, every one has these columns."""
    direct = {name: {"inputFields": _fields(uses, inputs)} for name, uses in made.lineage.direct.items() if uses}
    return {
        "schema": _facet(
            "SchemaDatasetFacet", fields=[{"name": name, "type": kind} for name, kind in made.types.items()]
        ),
        "columnLineage": _facet(
            "ColumnLineageDatasetFacet", fields=direct, dataset=_fields(made.lineage.indirect, inputs)
        ),
    }


def _fields(uses: Uses, inputs: list[Dataset]) -> list[Event]:
    return [
        {
            **vars(dataset),
            "field": column,
            "transformations": [
                {"type": "INDIRECT" if kind in _INDIRECT else "DIRECT", "subtype": kind} for kind in sorted(kinds)
            ],
        }
        for dataset in inputs
        for column, kinds in sorted(uses.items())
    ]
