"""Catalogue, history, positions; in PostgreSQL, history has a partition for whatever has no other."""

import sqlalchemy as sa
from alembic import op

from penstock.lineage.store import columns

revision = "0001"
down_revision = None

_HISTORY = ("run", "operation", "input", "output", "column_lineage")


def upgrade() -> None:  # noqa: PLR0915 - one statement for each table and index
    """Make the tables."""
    op.create_table(
        "column_lineage",
        sa.Column("created_at", columns.Moment(), nullable=False),
        sa.Column("operation_id", sa.Uuid(), nullable=False),
        sa.Column("source_dataset_id", columns.BigId, nullable=False),
        sa.Column("target_dataset_id", columns.BigId, nullable=False),
        sa.Column("fingerprint", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("job_id", columns.BigId, nullable=False),
        sa.PrimaryKeyConstraint(
            "created_at",
            "operation_id",
            "source_dataset_id",
            "target_dataset_id",
            "fingerprint",
            name=op.f("pk_column_lineage"),
        ),
        postgresql_partition_by="RANGE (created_at)",
    )
    op.create_index(
        op.f("ix_column_lineage_job_id_created_at"), "column_lineage", ["job_id", "created_at"], unique=False
    )
    op.create_index(op.f("ix_column_lineage_operation_id"), "column_lineage", ["operation_id"], unique=False)
    op.create_index(op.f("ix_column_lineage_run_id"), "column_lineage", ["run_id"], unique=False)
    op.create_index(
        op.f("ix_column_lineage_source_dataset_id_created_at"),
        "column_lineage",
        ["source_dataset_id", "created_at"],
        unique=False,
    )
    op.create_index(
        op.f("ix_column_lineage_target_dataset_id_created_at"),
        "column_lineage",
        ["target_dataset_id", "created_at"],
        unique=False,
    )
    op.create_table(
        "column_relation",
        sa.Column("fingerprint", sa.Uuid(), nullable=False),
        sa.Column("number", columns.BigId, nullable=False),
        sa.Column("source_column", columns.String, nullable=False),
        sa.Column("target_column", columns.String, nullable=True),
        sa.Column("type", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("fingerprint", "number", name=op.f("pk_column_relation")),
    )
    op.create_table(
        "input",
        sa.Column("created_at", columns.Moment(), nullable=False),
        sa.Column("operation_id", sa.Uuid(), nullable=False),
        sa.Column("dataset_id", columns.BigId, nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("job_id", columns.BigId, nullable=False),
        sa.Column("is_later_hour", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("schema_digest", sa.Uuid(), nullable=True),
        sa.Column("num_bytes", columns.BigId, nullable=True),
        sa.Column("num_rows", columns.BigId, nullable=True),
        sa.Column("num_files", columns.BigId, nullable=True),
        sa.PrimaryKeyConstraint("created_at", "operation_id", "dataset_id", name=op.f("pk_input")),
        postgresql_partition_by="RANGE (created_at)",
    )
    op.create_index(op.f("ix_input_dataset_id_created_at"), "input", ["dataset_id", "created_at"], unique=False)
    op.create_index(op.f("ix_input_job_id_created_at"), "input", ["job_id", "created_at"], unique=False)
    op.create_index(
        op.f("ix_input_later_hours"),
        "input",
        ["created_at"],
        unique=False,
        postgresql_where=sa.text("is_later_hour"),
        sqlite_where=sa.text("is_later_hour"),
    )
    op.create_index(op.f("ix_input_operation_id"), "input", ["operation_id"], unique=False)
    op.create_index(op.f("ix_input_run_id"), "input", ["run_id"], unique=False)
    op.create_table(
        "location",
        sa.Column("id", columns.BigId, autoincrement=True, nullable=False),
        sa.Column("type", columns.String, nullable=False),
        sa.Column("name", columns.String, nullable=False),
        sa.Column("external_id", columns.String, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_location")),
        sa.UniqueConstraint("type", "name", name=op.f("uq_location_type_name")),
    )
    op.create_table(
        "operation",
        sa.Column("created_at", columns.Moment(), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("name", columns.String, nullable=False),
        sa.Column("type", columns.String, nullable=True),
        sa.Column("position", columns.BigId, nullable=True),
        sa.Column("group", columns.String, nullable=True),
        sa.Column("description", columns.String, nullable=True),
        sa.Column("sql_query", columns.String, nullable=True),
        sa.Column("started_at", columns.Moment(), nullable=True),
        sa.Column("ended_at", columns.Moment(), nullable=True),
        sa.PrimaryKeyConstraint("created_at", "id", name=op.f("pk_operation")),
        postgresql_partition_by="RANGE (created_at)",
    )
    op.create_index(op.f("ix_operation_id"), "operation", ["id"], unique=False)
    op.create_index(op.f("ix_operation_run_id"), "operation", ["run_id"], unique=False)
    op.create_table(
        "output",
        sa.Column("created_at", columns.Moment(), nullable=False),
        sa.Column("operation_id", sa.Uuid(), nullable=False),
        sa.Column("dataset_id", columns.BigId, nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("job_id", columns.BigId, nullable=False),
        sa.Column("is_later_hour", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("type", sa.Integer(), nullable=False),
        sa.Column("schema_digest", sa.Uuid(), nullable=True),
        sa.Column("num_bytes", columns.BigId, nullable=True),
        sa.Column("num_rows", columns.BigId, nullable=True),
        sa.Column("num_files", columns.BigId, nullable=True),
        sa.PrimaryKeyConstraint("created_at", "operation_id", "dataset_id", name=op.f("pk_output")),
        postgresql_partition_by="RANGE (created_at)",
    )
    op.create_index(op.f("ix_output_dataset_id_created_at"), "output", ["dataset_id", "created_at"], unique=False)
    op.create_index(op.f("ix_output_job_id_created_at"), "output", ["job_id", "created_at"], unique=False)
    op.create_index(
        op.f("ix_output_later_hours"),
        "output",
        ["created_at"],
        unique=False,
        postgresql_where=sa.text("is_later_hour"),
        sqlite_where=sa.text("is_later_hour"),
    )
    op.create_index(op.f("ix_output_operation_id"), "output", ["operation_id"], unique=False)
    op.create_index(op.f("ix_output_run_id"), "output", ["run_id"], unique=False)
    op.create_table(
        "position",
        sa.Column("pipeline", columns.String, nullable=False),
        sa.Column("sink", columns.String, nullable=False),
        sa.Column("topic_id", columns.String, nullable=False),
        sa.Column("partition", columns.BigId, nullable=False),
        sa.Column("topic", columns.String, nullable=False),
        sa.Column("next_offset", columns.BigId, nullable=False),
        sa.PrimaryKeyConstraint("pipeline", "sink", "topic_id", "partition", name=op.f("pk_position")),
    )
    op.create_table(
        "run",
        sa.Column("created_at", columns.Moment(), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("job_id", columns.BigId, nullable=True),
        sa.Column("parent_run_id", sa.Uuid(), nullable=True),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("started_at", columns.Moment(), nullable=True),
        sa.Column("started_by", columns.String, nullable=True),
        sa.Column("start_reason", columns.String, nullable=True),
        sa.Column("ended_at", columns.Moment(), nullable=True),
        sa.Column("end_reason", columns.String, nullable=True),
        sa.Column("external_id", columns.String, nullable=True),
        sa.Column("attempt", columns.String, nullable=True),
        sa.Column("persistent_log_url", columns.String, nullable=True),
        sa.Column("running_log_url", columns.String, nullable=True),
        sa.Column("expected_start_at", columns.Moment(), nullable=True),
        sa.Column("expected_end_at", columns.Moment(), nullable=True),
        sa.PrimaryKeyConstraint("created_at", "id", name=op.f("pk_run")),
        postgresql_partition_by="RANGE (created_at)",
    )
    op.create_index(op.f("ix_run_id"), "run", ["id"], unique=False)
    op.create_index(op.f("ix_run_job_id_created_at"), "run", ["job_id", "created_at"], unique=False)
    op.create_index(op.f("ix_run_parent_run_id"), "run", ["parent_run_id"], unique=False)
    op.create_table(
        "run_facet",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("name", columns.String, nullable=False),
        sa.Column("value", columns.String, nullable=False),
        sa.Column("seen_at", columns.Moment(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "name", name=op.f("pk_run_facet")),
    )
    op.create_table(
        "schema",
        sa.Column("id", columns.BigId, autoincrement=True, nullable=False),
        sa.Column("digest", sa.Uuid(), nullable=False),
        sa.Column("fields", columns.JsonValue, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schema")),
        sa.UniqueConstraint("digest", name=op.f("uq_schema_digest")),
    )
    op.create_table(
        "store",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("partition_by", columns.String, nullable=False),
        sa.Column("united", columns.BigId, server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_store")),
    )
    op.create_table(
        "tag",
        sa.Column("id", columns.BigId, autoincrement=True, nullable=False),
        sa.Column("name", columns.String, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tag")),
        sa.UniqueConstraint("name", name=op.f("uq_tag_name")),
    )
    op.create_table(
        "user",
        sa.Column("id", columns.BigId, autoincrement=True, nullable=False),
        sa.Column("name", columns.String, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_user")),
        sa.UniqueConstraint("name", name=op.f("uq_user_name")),
    )
    op.create_table(
        "dataset",
        sa.Column("id", columns.BigId, autoincrement=True, nullable=False),
        sa.Column("location_id", columns.BigId, nullable=False),
        sa.Column("name", columns.String, nullable=False),
        sa.Column("name_key", columns.String, nullable=False),
        sa.Column("external_id", columns.String, nullable=True),
        sa.Column("external_url", columns.String, nullable=True),
        sa.ForeignKeyConstraint(["location_id"], ["location.id"], name=op.f("fk_dataset_location_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dataset")),
        sa.UniqueConstraint("location_id", "name_key", name=op.f("uq_dataset_location_id_name_key")),
    )
    op.create_table(
        "job",
        sa.Column("id", columns.BigId, autoincrement=True, nullable=False),
        sa.Column("location_id", columns.BigId, nullable=False),
        sa.Column("name", columns.String, nullable=False),
        sa.Column("name_key", columns.String, nullable=False),
        sa.Column("type", columns.String, nullable=True),
        sa.Column("parent_job_id", columns.BigId, nullable=True),
        sa.Column("parent_event_at", columns.Moment(), nullable=True),
        sa.ForeignKeyConstraint(["location_id"], ["location.id"], name=op.f("fk_job_location_id")),
        sa.ForeignKeyConstraint(["parent_job_id"], ["job.id"], name=op.f("fk_job_parent_job_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job")),
        sa.UniqueConstraint("location_id", "name_key", name=op.f("uq_job_location_id_name_key")),
    )
    op.create_index(op.f("ix_job_parent_job_id"), "job", ["parent_job_id"], unique=False)
    op.create_table(
        "location_address",
        sa.Column("location_id", columns.BigId, nullable=False),
        sa.Column("url", columns.String, nullable=False),
        sa.ForeignKeyConstraint(["location_id"], ["location.id"], name=op.f("fk_location_address_location_id")),
        sa.PrimaryKeyConstraint("location_id", "url", name=op.f("pk_location_address")),
    )
    op.create_index(op.f("ix_location_address_url"), "location_address", ["url"], unique=False)
    op.create_table(
        "personal_token",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("user_id", columns.BigId, nullable=False),
        sa.Column("name", columns.String, nullable=False),
        sa.Column("scopes", columns.JsonValue, nullable=False),
        sa.Column("since", sa.Date(), nullable=False),
        sa.Column("until", sa.Date(), nullable=False),
        sa.Column("revoked_at", columns.Moment(), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["user.id"], name=op.f("fk_personal_token_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_personal_token")),
    )
    op.create_index(op.f("ix_personal_token_user_id"), "personal_token", ["user_id"], unique=False)
    op.create_table(
        "tag_value",
        sa.Column("id", columns.BigId, autoincrement=True, nullable=False),
        sa.Column("tag_id", columns.BigId, nullable=False),
        sa.Column("value", columns.String, nullable=False),
        sa.ForeignKeyConstraint(["tag_id"], ["tag.id"], name=op.f("fk_tag_value_tag_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tag_value")),
        sa.UniqueConstraint("tag_id", "value", name=op.f("uq_tag_value_tag_id_value")),
    )
    op.create_table(
        "dataset_facet",
        sa.Column("dataset_id", columns.BigId, nullable=False),
        sa.Column("name", columns.String, nullable=False),
        sa.Column("value", columns.String, nullable=False),
        sa.Column("seen_at", columns.Moment(), nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["dataset.id"], name=op.f("fk_dataset_facet_dataset_id")),
        sa.PrimaryKeyConstraint("dataset_id", "name", name=op.f("pk_dataset_facet")),
    )
    op.create_table(
        "dataset_schema",
        sa.Column("dataset_id", columns.BigId, nullable=False),
        sa.Column("schema_digest", sa.Uuid(), nullable=False),
        sa.Column("first_seen_at", columns.Moment(), nullable=False),
        sa.Column("last_seen_at", columns.Moment(), nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["dataset.id"], name=op.f("fk_dataset_schema_dataset_id")),
        sa.ForeignKeyConstraint(["schema_digest"], ["schema.digest"], name=op.f("fk_dataset_schema_schema_digest")),
        sa.PrimaryKeyConstraint("dataset_id", "schema_digest", name=op.f("pk_dataset_schema")),
    )
    op.create_table(
        "dataset_symlink",
        sa.Column("from_dataset_id", columns.BigId, nullable=False),
        sa.Column("to_dataset_id", columns.BigId, nullable=False),
        sa.Column("type", columns.String, nullable=False),
        sa.ForeignKeyConstraint(["from_dataset_id"], ["dataset.id"], name=op.f("fk_dataset_symlink_from_dataset_id")),
        sa.ForeignKeyConstraint(["to_dataset_id"], ["dataset.id"], name=op.f("fk_dataset_symlink_to_dataset_id")),
        sa.PrimaryKeyConstraint("from_dataset_id", "to_dataset_id", "type", name=op.f("pk_dataset_symlink")),
    )
    op.create_index(op.f("ix_dataset_symlink_to_dataset_id"), "dataset_symlink", ["to_dataset_id"], unique=False)
    op.create_table(
        "dataset_tag",
        sa.Column("dataset_id", columns.BigId, nullable=False),
        sa.Column("tag_value_id", columns.BigId, nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["dataset.id"], name=op.f("fk_dataset_tag_dataset_id")),
        sa.ForeignKeyConstraint(["tag_value_id"], ["tag_value.id"], name=op.f("fk_dataset_tag_tag_value_id")),
        sa.PrimaryKeyConstraint("dataset_id", "tag_value_id", name=op.f("pk_dataset_tag")),
    )
    op.create_index(op.f("ix_dataset_tag_tag_value_id"), "dataset_tag", ["tag_value_id"], unique=False)
    op.create_table(
        "job_dependency",
        sa.Column("from_job_id", columns.BigId, nullable=False),
        sa.Column("to_job_id", columns.BigId, nullable=False),
        sa.Column("type", columns.String, nullable=False),
        sa.ForeignKeyConstraint(["from_job_id"], ["job.id"], name=op.f("fk_job_dependency_from_job_id")),
        sa.ForeignKeyConstraint(["to_job_id"], ["job.id"], name=op.f("fk_job_dependency_to_job_id")),
        sa.PrimaryKeyConstraint("from_job_id", "to_job_id", "type", name=op.f("pk_job_dependency")),
    )
    op.create_index(op.f("ix_job_dependency_to_job_id"), "job_dependency", ["to_job_id"], unique=False)
    op.create_table(
        "job_facet",
        sa.Column("job_id", columns.BigId, nullable=False),
        sa.Column("name", columns.String, nullable=False),
        sa.Column("value", columns.String, nullable=False),
        sa.Column("seen_at", columns.Moment(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_job_facet_job_id")),
        sa.PrimaryKeyConstraint("job_id", "name", name=op.f("pk_job_facet")),
    )
    op.create_table(
        "job_tag",
        sa.Column("job_id", columns.BigId, nullable=False),
        sa.Column("tag_value_id", columns.BigId, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_job_tag_job_id")),
        sa.ForeignKeyConstraint(["tag_value_id"], ["tag_value.id"], name=op.f("fk_job_tag_tag_value_id")),
        sa.PrimaryKeyConstraint("job_id", "tag_value_id", name=op.f("pk_job_tag")),
    )
    op.create_index(op.f("ix_job_tag_tag_value_id"), "job_tag", ["tag_value_id"], unique=False)
    if op.get_bind().dialect.name == "postgresql":
        for name in _HISTORY:
            op.execute(f'CREATE TABLE "{name}_default" PARTITION OF "{name}" DEFAULT')
