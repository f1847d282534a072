"""Which columns of PostgreSQL give back what is written to them, and which would change it."""

import pyarrow as pa
import pytest

from penstock.sinks.postgres_types import OF_THE_USER, column_type, holds

KINDS = [
    pa.string(),
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us", tz="UTC"),
    pa.timestamp("us"),
    pa.decimal128(38, 10),
    pa.duration("us"),
    pa.time64("us"),
    pa.list_(pa.int32()),
    pa.struct([("x", pa.int32())]),
    pa.map_(pa.string(), pa.int32()),
    pa.null(),
]
WRITTEN = {
    "timestamptz": "timestamp with time zone",
    "timestamp": "timestamp without time zone",
    "time": "time without time zone",
    "numeric(38, 10)": "numeric(38,10)",
}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_column_that_is_made_for_a_type_holds_it(kind: pa.DataType) -> None:
    made = column_type(kind)

    assert holds(kind, WRITTEN.get(made, made))


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (pa.string(), "character varying(5)"),
        (pa.string(), "uuid"),
        (pa.string(), OF_THE_USER),
        (pa.int64(), "smallint"),
        (pa.int64(), "numeric"),
        (pa.int64(), "numeric(6,2)"),
        (pa.int32(), "double precision"),
        (pa.int16(), "real"),
        (pa.float32(), "double precision"),
        (pa.float64(), "numeric"),
        (pa.decimal128(10, 2), "numeric"),
        (pa.decimal128(10, 2), "numeric(6,2)"),
        (pa.decimal128(10, 2), "text"),
        (pa.date32(), "timestamp without time zone"),
        (pa.struct([("x", pa.int32())]), "json"),
        (pa.null(), "integer"),
    ],
    ids=str,
)
def test_a_column_that_changes_nothing_or_refuses_aloud_is_taken(kind: pa.DataType, column: str) -> None:
    assert holds(kind, column)


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (pa.string(), "integer"),
        (pa.string(), "numeric(6,2)"),
        (pa.string(), "date"),
        (pa.string(), "timestamp with time zone"),
        (pa.string(), "character(5)"),
        (pa.string(), "name"),
        (pa.string(), "bytea"),
        (pa.string(), "boolean"),
        (pa.int64(), "double precision"),
        (pa.int64(), "numeric(5,-2)"),
        (pa.int64(), "boolean"),
        (pa.int32(), "real"),
        (pa.float64(), "real"),
        (pa.float64(), "numeric(10,2)"),
        (pa.float64(), "integer"),
        (pa.decimal128(10, 6), "numeric(10,2)"),
        (pa.decimal128(10, 2), "double precision"),
        (pa.decimal128(10, 2), "money"),
        (pa.binary(), "text"),
        (pa.date32(), "timestamp with time zone"),
        (pa.timestamp("us"), "timestamp with time zone"),
        (pa.timestamp("us"), "date"),
        (pa.timestamp("us", tz="UTC"), "timestamp without time zone"),
        (pa.timestamp("us", tz="UTC"), "timestamp(3) with time zone"),
        (pa.time64("us"), "time(0) without time zone"),
        (pa.duration("us"), "interval(0)"),
        (pa.list_(pa.string()), "text[]"),
    ],
    ids=str,
)
def test_a_column_that_would_change_values_is_not_taken(kind: pa.DataType, column: str) -> None:
    assert not holds(kind, column)
