"""Random events that contradict each other: few runs, jobs, datasets and times, so that much is said of each twice."""

import datetime
import random
import uuid
from typing import Any

import orjson

from penstock.lineage.collected import Facts, packed, unpacked
from penstock.lineage.events import parse
from penstock.lineage.extract import Extractor
from penstock.lineage.store.address import StoreAddress
from penstock.lineage.store.sessions import open_session
from penstock.lineage.store.writing import Writer
from penstock.lineage.uses import Uses, taken

from support import lineage_odd_times as odd_times
from support.lineage_samples import job_type

_V7 = [f"01953100-0000-7000-8000-00000000000{number}" for number in range(3)]
_V4 = [str(uuid.UUID(int=number, version=4)) for number in (7, 2**100 + 3, 2**120 + 5)]
_TIMES = [f"2025-02-23T{hour:02}:{minute:02}:00Z" for hour in (3, 4, 5) for minute in (0, 30)]
_FLINK = {"namespace": "http://flink", "name": "clicks", "facets": job_type("FLINK", "JOB", "STREAMING")}
_TYPES = ["START", "RUNNING", "COMPLETE", "FAIL", "ABORT", "OTHER"]


def random_events(dice: random.Random, count: int) -> list[bytes]:
    """Return events as their producers send them."""
    return [orjson.dumps(_event(dice)) for _ in range(count)]


def stream_event(run_id: uuid.UUID, kind: str, time: datetime.datetime) -> bytes:
    """Return an event of a streaming job that reads one dataset and writes another."""
    said = odd_times.event((run_id, kind, time))
    return orjson.dumps(orjson.loads(said) | {"job": _FLINK})


def facts_of(events: list[bytes]) -> Facts:
    """Return what they say together."""
    extractor = Extractor()
    for each in events:
        extractor.add(parse(each))
    return extractor.facts


def write_in_batches(address: StoreAddress, events: list[bytes], size: int) -> None:
    """Write events as the sink does, so many at a time, as two tasks have read them."""
    session = open_session(address)
    writer = Writer(session)
    for first in range(0, len(events), size):
        batch, facts, uses = events[first : first + size], Facts(), list[Uses]()
        for part in (batch[::2], batch[1::2]):
            left, used = taken(facts_of(part))
            facts.merge(unpacked(packed(left)))
            uses.append(used)
        session.begin()
        writer.write(facts, uses)
        session.commit()
        writer.committed()
    session.close()


def _event(dice: random.Random) -> dict[str, Any]:
    facets: dict[str, Any] = {}
    if dice.random() < 0.4:
        parent = {"runId": dice.choice(_V7 + _V4)}
        facets["parent"] = {
            "run": parent,
            "job": {"namespace": "airflow://a", "name": dice.choice(["Dag", "dag", "other"])},
        }
    if dice.random() < 0.5:
        facets["house"] = {"note": dice.choice(["grün", "red", "blue"])}
    return {
        "eventTime": dice.choice(_TIMES),
        "eventType": dice.choice(_TYPES),
        "run": {"runId": dice.choice(_V7 + _V4), "facets": facets},
        "job": {
            "namespace": dice.choice(["local://host", "LOCAL://host", "yarn://cluster"]),
            "name": dice.choice(["Load", "load", "clean"]),
            "facets": _job_facets(dice),
        },
        "inputs": [_dataset(dice, "inputFacets") for _ in range(dice.randrange(3))],
        "outputs": [_dataset(dice, "outputFacets") for _ in range(dice.randrange(3))],
    }


def _job_facets(dice: random.Random) -> dict[str, Any]:
    facets: dict[str, Any] = {}
    if dice.random() < 0.6:
        kind = dice.choice(["APPLICATION", "SQL_JOB", "JOB"])
        facets["jobType"] = {
            "integration": dice.choice(["SPARK", "AIRFLOW", "HOUSE"]),
            "jobType": kind,
            "processingType": dice.choice(["BATCH", "STREAMING"]),
        }
    if dice.random() < 0.3:
        facets["sql"] = {"query": dice.choice(["INSERT INTO t SELECT 1", "SELECT 'ä\n\t\\'"])}
    if dice.random() < 0.3:
        facets["tags"] = {"tags": [{"key": "team", "value": dice.choice(["a", "b"])}]}
    return facets


def _dataset(dice: random.Random, side: str) -> dict[str, Any]:
    said: dict[str, Any] = {"namespace": dice.choice(["kafka://b1,b2", "hive://meta"]), "name": dice.choice("AabC")}
    facets: dict[str, Any] = {}
    if dice.random() < 0.5:
        facets["schema"] = {"fields": [{"name": dice.choice("xyz"), "type": "string"}]}
    if dice.random() < 0.3:
        other = {"namespace": "hdfs://cluster", "name": dice.choice(["/a", "/b"]), "type": "TABLE"}
        facets["symlinks"] = {"identifiers": [other]}
    if dice.random() < 0.3:
        facets["owner"] = {"name": dice.choice(["ada", "bob"])}
    if dice.random() < 0.3 and side == "outputFacets":
        source = {"namespace": "hive://meta", "name": dice.choice("abC"), "field": "x"}
        source["transformations"] = [{"type": "DIRECT", "subtype": dice.choice(["IDENTITY", "AGGREGATION"])}]  # type: ignore[assignment]
        facets["columnLineage"] = {"fields": {"y": {"inputFields": [source]}}}
    if dice.random() < 0.5:
        name = "inputStatistics" if side == "inputFacets" else "outputStatistics"
        said[side] = {name: {"rowCount": dice.randrange(100), "size": dice.randrange(2**40)}}
    return {**said, "facets": facets}
