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
    {sums},
    max(io.created_at) AS last_at
FROM ({reads} UNION ALL {writes}) AS io LEFT JOIN run ON run.id = io.run_id
GROUP BY io.dataset_id, io.direction, {begin}, io.job_id, run.started_by"""
_DAY = {"postgresql": "(created_at AT TIME ZONE 'UTC')::date", "sqlite": "date(created_at / 1000000, 'unixepoch')"}
# SQLite's sum fails for all rows of the view if that of one is beyond 64 bits.
_SUM = {
    "postgresql": "sum(io.{column}) AS {column}",
    "sqlite": "CASE WHEN count(io.{column}) > 0 THEN CAST(total(io.{column}) AS INTEGER) END AS {column}",
}
_MONTH = {"postgresql": "date_trunc('month', io.day)::date", "sqlite": "date(io.day, 'start of month')"}


def upgrade() -> None:
    """Make the views."""
    dialect = op.get_bind().dialect.name
    reads, writes = (
        _SIDE.format(table=table, direction=direction, day=_DAY[dialect])
        for table, direction in (("input", "READ"), ("output", "WRITE"))
    )
    sums = ", ".join(_SUM[dialect].format(column=column) for column in ("num_bytes", "num_rows", "num_files"))
    for unit, begin in (("day", "io.day"), ("month", _MONTH[dialect])):
        op.execute(_VIEW.format(unit=unit, begin=begin, sums=sums, reads=reads, writes=writes))
