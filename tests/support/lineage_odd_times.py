"""Events of runs whose ids name a time that cannot be: decades ago, or centuries ahead."""

import datetime
import uuid

import orjson

from support.lineage_rows import uuid7

MADE = [datetime.datetime(year, 6, 1, tzinfo=datetime.UTC) for year in (1970, 2900, 9999)]
Said = tuple[uuid.UUID, str, datetime.datetime]
"""Id of a run, what the event says of it, and when."""


def run_id(made: datetime.datetime, number: int) -> uuid.UUID:
    """Return an id that says it was made then."""
    return uuid7(made, number)


def event(said: Said) -> bytes:
    """Return an event of a run that reads one dataset and writes another."""
    id_, kind, time = said
    source, target = {"namespace": "hive://meta", "name": "source"}, {"namespace": "hive://meta", "name": "target"}
    lineage = {"columnLineage": {"fields": {"id": {"inputFields": [{**source, "field": "id"}]}}}}
    return orjson.dumps(
        {
            "eventTime": time,
            "eventType": kind,
            "run": {"runId": str(id_)},
            "job": {"namespace": "local://here", "name": "job"},
            "inputs": [source],
            "outputs": [{**target, "facets": lineage}],
        }
    )
