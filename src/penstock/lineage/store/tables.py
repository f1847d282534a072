"""The tables of the lineage store, as SQLAlchemy has them: catalogue, history, and where the writers stand.

The catalogue (locations, datasets, jobs, schemas, users, tags) has ids that the database counts up, and stays. The
history (`HISTORY`) has a `created_at`, by which PostgreSQL keeps it in partitions and `clean` removes it; its ids are
UUIDs of any version. How what several events say is merged is in `lineage/facts.py`.
"""

from sqlalchemy import (
    Boolean,
    Column,
    Date,
    ForeignKey,
    Index,
    MetaData,
    Table,
    TableClause,
    UniqueConstraint,
    Uuid,
    column,
    true,
)
from sqlalchemy import table as sql_table

from penstock.lineage.store.columns import BigId, Flags, JsonValue, Moment, Small, String

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    }
)
BY_TIME = "RANGE (created_at)"


def _id() -> Column[int]:
    return Column("id", BigId, primary_key=True, autoincrement=True)


def _of(table: str, name: str | None = None, *, primary_key: bool = False, nullable: bool = False) -> Column[int]:
    return Column(name or f"{table}_id", BigId, ForeignKey(f"{table}.id"), primary_key=primary_key, nullable=nullable)


# Catalogue. Names are unique in lower case (`name_key`); of several spellings the greatest is shown.

location = Table(
    "location",
    metadata,
    _id(),
    Column("type", String, nullable=False),
    Column("name", String, nullable=False),
    Column("external_id", String),
    UniqueConstraint("type", "name"),
)
location_address = Table(
    "location_address",
    metadata,
    _of("location", primary_key=True),
    Column("url", String, primary_key=True),
    Index(None, "url"),
)
dataset = Table(
    "dataset",
    metadata,
    _id(),
    _of("location"),
    Column("name", String, nullable=False),
    Column("name_key", String, nullable=False),
    Column("external_id", String),
    Column("external_url", String),
    UniqueConstraint("location_id", "name_key"),
)
dataset_symlink = Table(
    "dataset_symlink",
    metadata,
    _of("dataset", "from_dataset_id", primary_key=True),
    _of("dataset", "to_dataset_id", primary_key=True),
    Column("type", String, primary_key=True),
    Index(None, "to_dataset_id"),
)
schema = Table(
    "schema",
    metadata,
    _id(),
    Column("digest", Uuid, nullable=False, unique=True),
    Column("fields", JsonValue, nullable=False),
)
dataset_schema = Table(  # the history of a dataset's schemas
    "dataset_schema",
    metadata,
    _of("dataset", primary_key=True),
    Column("schema_digest", Uuid, ForeignKey("schema.digest"), primary_key=True),
    Column("first_seen_at", Moment, nullable=False),
    Column("last_seen_at", Moment, nullable=False),
)
job = Table(
    "job",
    metadata,
    _id(),
    _of("location"),
    Column("name", String, nullable=False),
    Column("name_key", String, nullable=False),
    Column("type", String),  # None: no event has said it
    _of("job", "parent_job_id", nullable=True),
    Column("parent_event_at", Moment),  # when the parent was last said: the later counts
    UniqueConstraint("location_id", "name_key"),
    Index(None, "parent_job_id"),
)
job_dependency = Table(
    "job_dependency",
    metadata,
    _of("job", "from_job_id", primary_key=True),
    _of("job", "to_job_id", primary_key=True),
    Column("type", String, primary_key=True),
    Index(None, "to_job_id"),
)
user = Table("user", metadata, _id(), Column("name", String, nullable=False, unique=True))
tag = Table("tag", metadata, _id(), Column("name", String, nullable=False, unique=True))
tag_value = Table(
    "tag_value",
    metadata,
    _id(),
    _of("tag"),
    Column("value", String, nullable=False),
    UniqueConstraint("tag_id", "value"),
)
dataset_tag = Table(
    "dataset_tag",
    metadata,
    _of("dataset", primary_key=True),
    _of("tag_value", primary_key=True),
    Index(None, "tag_value_id"),
)
job_tag = Table(
    "job_tag",
    metadata,
    _of("job", primary_key=True),
    _of("tag_value", primary_key=True),
    Index(None, "tag_value_id"),
)
column_relation = Table(  # which columns come from which: one set of them per fingerprint, shared by all runs
    "column_relation",
    metadata,
    Column("fingerprint", Uuid, primary_key=True),
    Column("number", BigId, primary_key=True),
    Column("source_column", String, nullable=False),
    Column("target_column", String),  # None: every column of the target depends on it (indirect)
    Column("type", Flags, nullable=False),
)
run_facet = Table(  # facets that nobody knows, as they came: JSON; the latest of each name
    "run_facet",
    metadata,
    Column("run_id", Uuid, primary_key=True),  # of a run or of an operation
    Column("name", String, primary_key=True),
    Column("value", String, nullable=False),
    Column("seen_at", Moment, nullable=False),
)
job_facet = Table(
    "job_facet",
    metadata,
    _of("job", primary_key=True),
    Column("name", String, primary_key=True),
    Column("value", String, nullable=False),
    Column("seen_at", Moment, nullable=False),
)
dataset_facet = Table(  # those of inputs and outputs, too
    "dataset_facet",
    metadata,
    _of("dataset", primary_key=True),
    Column("name", String, primary_key=True),
    Column("value", String, nullable=False),
    Column("seen_at", Moment, nullable=False),
)

# History. No foreign keys: a row may come before what it refers to, and partitions go whole.

run = Table(
    "run",
    metadata,
    Column("created_at", Moment, primary_key=True),
    Column("id", Uuid, primary_key=True),
    Column("job_id", BigId),  # None while only a child has named the run
    Column("parent_run_id", Uuid),
    Column("status", Small, nullable=False),
    Column("started_at", Moment),
    Column("started_by", String),  # a user's name
    Column("start_reason", String),
    Column("ended_at", Moment),
    Column("end_reason", String),
    Column("external_id", String),
    Column("attempt", String),
    Column("persistent_log_url", String),
    Column("running_log_url", String),
    Column("expected_start_at", Moment),
    Column("expected_end_at", Moment),
    Index(None, "id"),
    Index(None, "job_id", "created_at"),
    Index(None, "parent_run_id"),
    postgresql_partition_by=BY_TIME,
)
_STREAMING = column("type", String) == "STREAMING"
operation = Table(
    "operation",
    metadata,
    Column("created_at", Moment, primary_key=True),
    Column("id", Uuid, primary_key=True),
    Column("run_id", Uuid, nullable=False),
    Column("status", Small, nullable=False),
    Column("name", String, nullable=False),
    Column("type", String),  # BATCH or STREAMING; None: no event has said it
    Column("position", BigId),
    Column("group", String),
    Column("description", String),
    Column("sql_query", String),
    Column("started_at", Moment),
    Column("ended_at", Moment),
    Index(None, "id"),
    Index(None, "run_id"),
    Index("ix_operation_streaming", "created_at", postgresql_where=_STREAMING, sqlite_where=_STREAMING),
    postgresql_partition_by=BY_TIME,
)


def _io(name: str, *more: Column[int]) -> Table:
    """Return the table of one side: what an operation read, or wrote, per whole hour that it lasts."""
    later = column("is_later_hour", Boolean)
    return Table(
        name,
        metadata,
        Column("created_at", Moment, primary_key=True),
        Column("operation_id", Uuid, primary_key=True),
        Column("dataset_id", BigId, primary_key=True),
        Column("run_id", Uuid, nullable=False),
        Column("job_id", BigId, nullable=False),
        # False in the hour that the operation's UUIDv7 names: of several hours it is true in all but one, so whatever
        # has none is there once for each dataset.
        Column("is_later_hour", Boolean, nullable=False, server_default=true()),
        *more,
        Column("schema_digest", Uuid),
        Column("num_bytes", BigId),
        Column("num_rows", BigId),
        Column("num_files", BigId),
        Index(None, "operation_id"),
        Index(None, "run_id"),
        Index(None, "job_id", "created_at"),
        Index(None, "dataset_id", "created_at"),
        Index(f"ix_{name}_later_hours", "created_at", postgresql_where=later, sqlite_where=later),
        postgresql_partition_by=BY_TIME,
    )


input_ = _io("input")
output = _io("output", Column("type", Flags, nullable=False))
column_lineage = Table(
    "column_lineage",
    metadata,
    Column("created_at", Moment, primary_key=True),
    Column("operation_id", Uuid, primary_key=True),
    Column("source_dataset_id", BigId, primary_key=True),
    Column("target_dataset_id", BigId, primary_key=True),
    Column("fingerprint", Uuid, primary_key=True),
    Column("run_id", Uuid, nullable=False),
    Column("job_id", BigId, nullable=False),
    Index(None, "operation_id"),
    Index(None, "run_id"),
    Index(None, "job_id", "created_at"),
    Index(None, "source_dataset_id", "created_at"),
    Index(None, "target_dataset_id", "created_at"),
    postgresql_partition_by=BY_TIME,
)
HISTORY = (run, operation, input_, output, column_lineage)
"""The tables that PostgreSQL partitions by `created_at`, and that `clean` looks at."""

# Who may ask, where the writers stand, and what makes this store this one.

personal_token = Table(
    "personal_token",
    metadata,
    Column("id", Uuid, primary_key=True),
    _of("user"),
    Column("name", String, nullable=False),
    Column("scopes", JsonValue, nullable=False),
    Column("since", Date, nullable=False),
    Column("until", Date, nullable=False),
    Column("revoked_at", Moment),
    Index(None, "user_id"),
)
position = Table(
    "position",
    metadata,
    Column("pipeline", String, primary_key=True),
    Column("sink", String, primary_key=True),
    Column("topic_id", String, primary_key=True),
    Column("partition", BigId, primary_key=True),
    Column("topic", String, nullable=False),
    Column("next_offset", BigId, nullable=False),
)
store = Table(  # one row, made with the store
    "store",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("partition_by", String, nullable=False),  # day, month or year
    Column("united", BigId, nullable=False, server_default="0"),  # how often locations were found to be one
)


def _usage(unit: str) -> TableClause:
    """Return the view of who read and wrote which dataset in which day or month, in UTC."""
    return sql_table(
        f"usage_by_{unit}",
        column("dataset_id", BigId),
        column("direction", String),  # READ or WRITE
        column(unit, Date),  # its first day
        column("job_id", BigId),
        column("started_by", String),
        column("num_runs", BigId),
        column("num_bytes", BigId),
        column("num_rows", BigId),
        column("num_files", BigId),
        column("last_at", Moment()),
    )


usage_by_day = _usage("day")
usage_by_month = _usage("month")
