"""Changes of a table as Debezium's connector for PostgreSQL writes them, made by hand."""

import json
from typing import Any

UNAVAILABLE = "__debezium_unavailable_value"


def change(
    op: str,
    after: dict[str, Any] | None = None,
    *,
    before: dict[str, Any] | None = None,
    schema: list[dict[str, Any]] | None = None,
    lsn: int = 7,
) -> bytes:
    """Make the value of one record; with a schema for each column, as Connect's converter adds it, or without."""
    source = {"version": "3.6.2.Final", "lsn": lsn, "ts_ms": 1_700_000_000_000, "ts_us": 1_700_000_000_000_123}
    payload = {"op": op, "before": before, "after": after, "source": source, "ts_ms": 1_700_000_000_555}
    if schema is None:
        return json.dumps(payload).encode()
    row = {"type": "struct", "optional": True, "fields": schema, "name": "shop.public.t.Value"}
    fields = [{**row, "field": "before"}, {**row, "field": "after"}, {"type": "string", "field": "op"}]
    return json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": payload}).encode()
