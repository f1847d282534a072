"""By which rules rows of the store are merged with others of the same key: those of `lineage/facts.py`."""

from sqlalchemy import Table

from penstock.lineage.store import tables
from penstock.lineage.store.statements import Rule, added_up, greater_job, greatest, least, newer

RUN: dict[str, Rule] = {
    "job_id": greater_job,
    "parent_run_id": greatest,
    "status": greatest,
    "started_at": least,
    "ended_at": greatest,
    **dict.fromkeys(
        (
            "started_by",
            "start_reason",
            "end_reason",
            "external_id",
            "attempt",
            "persistent_log_url",
            "running_log_url",
            "expected_start_at",
            "expected_end_at",
        ),
        greatest,
    ),
}
OPERATION: dict[str, Rule] = {
    "run_id": greatest,
    "status": greatest,
    "started_at": least,
    "ended_at": greatest,
    **dict.fromkeys(("name", "type", "position", "group", "description", "sql_query"), greatest),
}
INPUT: dict[str, Rule] = {
    "run_id": greatest,
    "job_id": greater_job,
    **dict.fromkeys(("schema_digest", "num_bytes", "num_rows", "num_files"), greatest),
}
OUTPUT: dict[str, Rule] = {**INPUT, "type": added_up}
COLUMN_LINEAGE: dict[str, Rule] = {"run_id": greatest, "job_id": greater_job}
HISTORY: dict[Table, dict[str, Rule]] = {
    tables.run: RUN,
    tables.operation: OPERATION,
    tables.input_: INPUT,
    tables.output: OUTPUT,
    tables.column_lineage: COLUMN_LINEAGE,
}
DATASET_SCHEMA: dict[str, Rule] = {"first_seen_at": least, "last_seen_at": greatest}
FACET: dict[str, Rule] = {"value": newer, "seen_at": newer}


def is_newer(table: str) -> str:
    """Return the condition under which a facet replaces the one that is there."""
    return f'(excluded.seen_at, excluded.value) > ("{table}".seen_at, "{table}".value)'
