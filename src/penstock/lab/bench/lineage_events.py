"""Lineage events as a house with Spark sends them, about 2.7 KB each: START and COMPLETE of executions."""

import datetime
import random
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import orjson

from penstock.clock import clock
from penstock.uuid7 import uuid7

_PRODUCER = "https://github.com/OpenLineage/OpenLineage/tree/1.53.0"
_FACET = "https://openlineage.io/spec/2-0-2/Facet.json"
_EVENT = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_APPLICATIONS, _TABLES, _EXECUTIONS = 200, 500, 20
_FILES, _CATALOGUE, _JOBS = "hdfs://namenode:8020", "hive://metastore:9083", "yarn://analytics"


def values(count: int, seed: int = 1, began: datetime.datetime | None = None) -> Iterator[bytes]:
    """Yield the events, two for each execution, with UUIDv7 of the last hours; the same for the same seed and time."""
    dice = random.Random(seed)  # noqa: S311 - the same events every time
    time = (began or clock().now()) - datetime.timedelta(hours=1)
    application, run_id = "", UUID(int=0)
    for number in range(0, count, 2):
        time += datetime.timedelta(milliseconds=3600_000 // count)
        if number // 2 % _EXECUTIONS == 0:
            application, run_id = f"daily_{dice.randrange(_APPLICATIONS)}", _uuid7(dice, time)
        execution = _uuid7(dice, time)
        source, target = dice.randrange(_TABLES), dice.randrange(_TABLES)
        for kind in ("START", "COMPLETE")[: count - number]:
            event = _event(kind, time, execution, application, run_id, source, target)
            time += datetime.timedelta(milliseconds=1)
            yield orjson.dumps(event)


def _event(
    kind: str,
    time: datetime.datetime,
    execution: UUID,
    application: str,
    run_id: UUID,
    source: int,
    target: int,
) -> dict[str, Any]:
    done = kind == "COMPLETE"
    counts = _facet(rowCount=1000 + source, size=64_000 + target, fileCount=3)
    output = _dataset(target)
    if done:
        output["facets"]["columnLineage"] = _facet(fields={"id": _sources(source, "id")})
    return {
        "eventTime": time.isoformat(timespec="milliseconds"),
        "producer": _PRODUCER,
        "schemaURL": _EVENT,
        "eventType": kind,
        "run": {
            "runId": str(execution),
            "facets": {
                "parent": _facet(run={"runId": str(run_id)}, job={"namespace": _JOBS, "name": application}),
                "processing_engine": _facet(version="3.5.4", name="spark", openlineageAdapterVersion="1.53.0"),
                "spark_properties": _facet(properties={"spark.master": "yarn", "spark.app.name": application}),
            },
        },
        "job": {
            "namespace": _JOBS,
            "name": f"{application}.execute_insert_into_hadoop_fs_relation_command.warehouse_t{target}",
            "facets": {"jobType": _facet(processingType="BATCH", integration="SPARK", jobType="SQL_JOB")},
        },
        "inputs": [_dataset(source) | ({"inputFacets": {"inputStatistics": counts}} if done else {})],
        "outputs": [output | ({"outputFacets": {"outputStatistics": counts}} if done else {})],
    }


def _dataset(number: int) -> dict[str, Any]:
    columns = [{"name": name, "type": "string"} for name in ("id", "customer", "amount")]
    symlink = {"namespace": _CATALOGUE, "name": f"sales.t{number}", "type": "TABLE"}
    name = f"/warehouse/sales.db/t{number}/day=2026-03-01"
    return {
        "namespace": _FILES,
        "name": name,
        "facets": {"schema": _facet(fields=columns), "symlinks": _facet(identifiers=[symlink])},
    }


def _sources(number: int, column: str) -> dict[str, Any]:
    how = {"type": "DIRECT", "subtype": "IDENTITY", "description": "", "masking": False}
    name = f"/warehouse/sales.db/t{number}/day=2026-03-01"
    return {"inputFields": [{"namespace": _FILES, "name": name, "field": column, "transformations": [how]}]}


def _facet(**fields: Any) -> dict[str, Any]:
    return {"_producer": _PRODUCER, "_schemaURL": _FACET, **fields}


def _uuid7(dice: random.Random, time: datetime.datetime) -> UUID:
    return uuid7(round(time.timestamp() * 1000), dice.getrandbits(76))
