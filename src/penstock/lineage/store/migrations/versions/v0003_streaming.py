"""An index of streaming operations: those that go on are in windows that began after them."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the index."""
    is_streaming = sa.text("type = 'STREAMING'")
    op.create_index(
        "ix_operation_streaming",
        "operation",
        ["created_at"],
        postgresql_where=is_streaming,
        sqlite_where=is_streaming,
    )
