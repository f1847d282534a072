"""Views: who reads and writes each dataset, per day and per month, in UTC."""

from alembic import op

revision = "0002"
down_revision = "0001"

_SIDE = """
SELECT dataset_id, '{direction}' AS direction, {day} AS day, job_id, run_id, num_bytes, num_rows, num_files, created_at
FROM "{table}\""""
_VIEW = """
CREATE VIEW usage_by_{unit} AS
SELECT io.dataset_id, io.direction, {begin} AS {unit}, io.job_id, run.started_by,
    count(DISTINCT NULLIF(io.run_id, '00000000000000000000000000000000')) AS num_runs,
    sum(io.num_bytes) AS num_bytes, sum(io.num_rows) AS num_rows, sum(io.num_files) AS num_files,
    max(io.created_at) AS last_at
FROM ({reads} UNION ALL {writes}) AS io LEFT JOIN run ON run.id = io.run_id
GROUP BY io.dataset_id, io.direction, {begin}, io.job_id, run.started_by"""
_DAY = {"postgresql": "(created_at AT TIME ZONE 'UTC')::date", "sqlite": "date(created_at / 1000000, 'unixepoch')"}
_MONTH = {"postgresql": "date_trunc('month', io.day)::date", "sqlite": "date(io.day, 'start of month')"}


def upgrade() -> None:
    """Make the views."""
    dialect = op.get_bind().dialect.name
    reads, writes = (
        _SIDE.format(table=table, direction=direction, day=_DAY[dialect])
        for table, direction in (("input", "READ"), ("output", "WRITE"))
    )
    for unit, begin in (("day", "io.day"), ("month", _MONTH[dialect])):
        op.execute(_VIEW.format(unit=unit, begin=begin, reads=reads, writes=writes))
