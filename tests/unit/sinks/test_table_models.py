"""What stands in a pipeline file about keeping a table: partitions, compaction; and what new columns mean for one."""

import pyarrow as pa
import pytest
from pydantic import BaseModel, ValidationError

from penstock.errors import Conflict
from penstock.sinks.compaction import Compact
from penstock.sinks.partitioning import PartitionBy, PartitionField
from penstock.sinks.schema_change import NewColumns, SchemaChange, required_change


class _File(BaseModel):
    partition_by: list[PartitionBy]


def test_a_partition_is_a_column_or_the_months_days_or_hours_of_one() -> None:
    found = _File.model_validate({"partition_by": ["country", "days(at)", " hours( at ) ", "months(the time)"]})

    assert [
        PartitionField(column="country"),
        PartitionField(column="at", transform="days"),
        PartitionField(column="at", transform="hours"),
        PartitionField(column="the time", transform="months"),
    ] == found.partition_by
    assert ["country", "at_day", "at_hour", "the time_month"] == [each.name for each in found.partition_by]
    assert {"partition_by": ["country", "days(at)", "hours(at)", "months(the time)"]} == found.model_dump()


@pytest.mark.parametrize("text", ["", "years(at)", "bucket(3, id)", "days(at", "days()"])
def test_any_other_partition_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValidationError, match=r"months, days or hours"):
        _File.model_validate({"partition_by": [text]})


def test_compaction_is_written_as_people_say_it() -> None:
    found = Compact.model_validate({"every": "100 batches", "target": "128MB", "keep": "7d"}, context={})

    assert Compact(every=100, target=128_000_000, keep=604_800_000) == found == Compact()


@pytest.mark.parametrize("wrong", [{"every": "soon"}, {"every": 0}, {"target": "1kB"}, {"keep": "1m"}])
def test_compaction_without_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Compact.model_validate(wrong)


THERE = pa.schema([("id", pa.int32()), ("name", pa.string())])


def change(ours: pa.Schema, new_columns: NewColumns = "add") -> SchemaChange:
    return required_change(
        "the table t",
        THERE,
        ours,
        new_columns=new_columns,
        widens=lambda was, now: (was, now) == (pa.int32(), pa.int64()),
        holds=lambda there, ours: (there, ours) == (pa.int32(), pa.int16()),
    )


def test_columns_are_compared_by_name_and_new_ones_are_added() -> None:
    same = change(pa.schema([("name", pa.string()), ("id", pa.int16())]))
    more = change(pa.schema([("city", pa.string()), *THERE, ("at", pa.date32())]))
    wider = change(pa.schema([("id", pa.int64()), ("name", pa.string())]))

    assert (False, "") == (bool(same), str(same))
    assert "the column city string will be added, the column at date32[day] will be added" == str(more)
    assert "the column id int32 will become int64" == str(wider)


@pytest.mark.parametrize(
    ("ours", "new_columns", "reason"),
    [
        ([("id", pa.int32())], "add", "has the column 'name', which the pipeline does not write"),
        ([*THERE, ("city", pa.string())], "refuse", "does not have the column 'city', and `new_columns` is `refuse`"),
        ([*THERE, ("_offset", pa.int64())], "add", "has no column '_offset', so which records its rows are of is not"),
        ([*THERE, ("NAME", pa.string())], "add", "differs from it by capital letters alone"),
        ([("id", pa.string()), ("name", pa.string())], "add", "has the column id int32, and the pipeline writes"),
    ],
)
def test_whatever_is_not_safe_is_refused_with_the_remedy(
    ours: list[pa.Field], new_columns: NewColumns, reason: str
) -> None:
    with pytest.raises(Conflict, match=reason) as refused:
        change(pa.schema(ours), new_columns)

    assert "Nothing was written" == refused.value.safe
    assert refused.value.fix
