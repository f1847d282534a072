"""Operations as rows for COPY, and back."""

import datetime
from uuid import UUID

import numpy as np
import pytest

from penstock.lineage.facts import Operation
from penstock.lineage.keys import time_of
from penstock.lineage.operation_rows import COLUMNS, packed, unpacked
from penstock.lineage.store import tables
from penstock.lineage.store.row_columns import PackedRows, created_us
from penstock.uuid7 import uuid7

RUN = UUID("9b2f6f1e-8a55-4f6d-9c39-5a1c1d0f7e01")
NOON = datetime.datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=datetime.UTC)


def operation(id_: UUID, **more: object) -> Operation:
    created_at = time_of(id_)
    assert created_at is not None
    return Operation(id=id_, run_id=RUN, created_at=created_at, name="größte", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "made",
    [
        operation(uuid7(0, 0)),
        operation(uuid7(1_772_366_400_001, 2**76 - 1), status=3, type="BATCH", position=-(2**31), sql="SELECT '→'\n"),
        operation(uuid7(253_402_300_799_999, 7), group="", description="x" * 70_000, position=2**63 - 1),
        operation(
            uuid7(1_772_366_400_000, 5),
            started_at=datetime.datetime(1, 1, 1, tzinfo=datetime.UTC),
            ended_at=datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.UTC),
        ),
        operation(uuid7(1_772_366_400_000, 6), started_at=NOON),
    ],
)
def test_an_operation_is_unpacked_as_it_was_packed(made: Operation) -> None:
    assert made == unpacked(packed(made))


def test_a_row_has_the_columns_of_the_table_in_its_order() -> None:
    made = operation(uuid7(1_772_366_400_000, 6), status=1, sql="SELECT 1", started_at=NOON)
    ids = np.array([made.id.bytes], "V16")

    [row] = PackedRows(created_us(ids), ids, np.array([packed(made)], object)).rows()

    assert COLUMNS == tuple(tables.operation.columns.keys())
    assert {
        "created_at": made.created_at,
        "id": made.id,
        "run_id": RUN,
        "status": 1,
        "name": "größte",
        "sql_query": "SELECT 1",
        "started_at": NOON,
    } == {name: value for name, value in zip(COLUMNS, row, strict=True) if value is not None}
