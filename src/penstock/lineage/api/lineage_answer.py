"""Lineage over HTTP: large answers are written as they come out of the store, without a model for each part."""

from typing import Any

import orjson
from fastapi import Response
from pydantic import BaseModel
from sqlalchemy import Connection

from penstock.lineage.query.lineage import lineage_values
from penstock.lineage.query.walk import Start
from penstock.lineage.query.window import Window
from penstock.lineage.shapes.lineage import Granularity
from penstock.lineage.shapes.parameters import LineageQuery


def lineage_answer(connection: Connection, start: Start, granularity: Granularity, query: LineageQuery) -> Response:
    """Return the JSON of a `Lineage`."""
    values = lineage_values(
        connection,
        start,
        direction=query.direction,
        granularity=granularity,
        depth=query.depth,
        window=Window(query.since, query.until),
        with_columns=query.include_column_lineage,
    )
    return Response(orjson.dumps(values, default=_plain, option=orjson.OPT_UTC_Z), media_type="application/json")


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True)
    raise TypeError
