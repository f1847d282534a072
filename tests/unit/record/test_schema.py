import re

import pyarrow as pa
import pytest

from penstock.record.schema import parse

UTC = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("string", pa.string()),
        ("varchar(10)", pa.string()),
        ("char(3)", pa.string()),
        ("boolean", pa.bool_()),
        ("tinyint", pa.int8()),
        ("byte", pa.int8()),
        ("smallint", pa.int16()),
        ("short", pa.int16()),
        ("int", pa.int32()),
        ("INTEGER", pa.int32()),
        ("bigint", pa.int64()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("real", pa.float32()),
        ("double", pa.float64()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", UTC),
        ("timestamp_ltz", UTC),
        ("timestamp_ntz", pa.timestamp("us")),
        ("decimal", pa.decimal128(10, 0)),
        ("decimal(5)", pa.decimal128(5, 0)),
        ("numeric(38, 38)", pa.decimal128(38, 38)),
        ("array<int>", pa.list_(pa.int32())),
        ("array<array<string>>", pa.list_(pa.list_(pa.string()))),
        ("map<string, bigint>", pa.map_(pa.string(), pa.int64())),
        ("struct<x: int, y: string>", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ("struct<x int, y string>", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ],
)
def test_each_type_of_spark_becomes_one_of_arrow(written: str, expected: pa.DataType) -> None:
    assert expected == parse(f"a {written}").field("a").type


def test_types_nest() -> None:
    actual = parse("a struct<x: array<struct<y: map<string, decimal(3,1)>>>>")

    inner = pa.struct([("y", pa.map_(pa.string(), pa.decimal128(3, 1)))])
    assert pa.schema([("a", pa.struct([("x", pa.list_(inner))]))]) == actual


def test_types_that_nest_without_an_end_are_refused() -> None:
    with pytest.raises(ValueError, match="types are nested too deeply"):
        parse(f"a {'array<' * 2_000}int{'>' * 2_000}")


def test_columns_keep_their_order_and_their_case() -> None:
    assert ["b", "A", "c"] == parse("b int, A string, c date").names


@pytest.mark.parametrize("written", ["a int NOT NULL", "a int not null", "a int NOT NULL COMMENT 'the id'"])
def test_not_null_makes_a_column_required(written: str) -> None:
    assert not parse(written).field("a").nullable


@pytest.mark.parametrize("written", ["a int", "a int NULL", "a int COMMENT 'NOT NULL'", "a int -- NOT NULL"])
def test_any_other_column_may_be_null(written: str) -> None:
    assert parse(written).field("a").nullable


def test_not_null_counts_inside_of_a_struct_too() -> None:
    actual = parse("a struct<x: int NOT NULL, y: int>").field("a").type

    assert [False, True] == [actual.field("x").nullable, actual.field("y").nullable]


@pytest.mark.parametrize(
    "name", ["a b", "a-b", "a.b", "c`d", "1", "class", "select", "ünï", "😀", "a, b int", "x) USING delta"]
)
def test_a_name_in_backticks_may_be_anything(name: str) -> None:
    quoted = name.replace("`", "``")

    assert [name] == parse(f"`{quoted}` int").names


def test_names_that_are_words_of_sql_need_no_backticks() -> None:
    assert ["order", "index", "key", "value", "date", "end"] == parse(
        "order int, index int, key string, value string, date date, end int"
    ).names


def test_comments_are_no_columns() -> None:
    assert ["a", "b"] == parse("a int, -- the first, a bigint\n b int /* the second */ -- done").names


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "-- nothing",
        "id",
        "id bigint b int",
        "id bigint, b",
        "id bigint,, b int",
        ", id bigint",
        "id bigint,",
        "a struct<x: int,, y: int>",
        "a struct<>",
        "a struct<x: int",
        "a array<int",
        "select int",
        "a int, PRIMARY KEY (a)",
        "a int); DROP TABLE t; --",
        "a int) USING delta; SELECT (1",
    ],
)
def test_what_is_no_list_of_columns_is_refused_with_an_example(text: str) -> None:
    expected = f"'{text}' is not a list of columns: write as in 'id bigint NOT NULL, at timestamp'"

    with pytest.raises(ValueError, match=re.escape(expected)):
        parse(text)


@pytest.mark.parametrize("text", ["a int) AS SELECT (1", "a int) PARTITIONED BY (a", "a int) COMMENT ('x'"])
def test_text_that_leaves_the_list_of_columns_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a list of columns"):
        parse(text)


@pytest.mark.parametrize("text", ["a int, a int", "a int, b int, a string", "`a b` int, `a b` int"])
def test_a_column_that_stands_twice_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"the column 'a( b)?' occurs twice"):
        parse(text)


def test_columns_that_differ_in_case_only_are_refused_for_spark_cannot_tell_them_apart() -> None:
    with pytest.raises(ValueError, match="occurs twice"):
        parse("id int, ID int")


def test_a_field_of_a_struct_that_stands_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="occurs twice"):
        parse("a struct<x: int, x: string>")


@pytest.mark.parametrize("text", ["_a int", "a int, _offset bigint", "`_` int"])
def test_names_that_belong_to_penstock_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="names that begin with an underscore belong to Penstock"):
        parse(text)


def test_a_column_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="name"):
        parse("a int, `` int")


@pytest.mark.parametrize("written", ["decimal(39,2)", "decimal(5,6)", "decimal(0,0)", "decimal(5,2,1)"])
def test_a_decimal_that_cannot_be_is_refused_with_its_column(written: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"the column 'price': {written} is not possible")):
        parse(f"price {written}")


def test_a_decimal_whose_digits_are_no_number_is_refused_with_its_column() -> None:
    with pytest.raises(ValueError, match="price"):
        parse("price decimal(x)")


@pytest.mark.parametrize("written", ["map<int, string>", "map<array<string>, int>"])
def test_a_map_with_other_keys_than_strings_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="the column 'a': the keys of a map must be strings, as in JSON"):
        parse(f"a {written}")


@pytest.mark.parametrize("written", ["interval", "variant", "array", "map<string>", "int unsigned", "json"])
def test_a_type_that_is_not_known_is_refused_with_its_column(written: str) -> None:
    with pytest.raises(ValueError, match=r"the column 'a' has the type '.+', which Penstock does not know"):
        parse(f"a {written}")


@pytest.mark.parametrize("written", ["datetime", "uuid", "int256"])
def test_a_type_that_is_not_known_is_named_as_it_was_written(written: str) -> None:
    with pytest.raises(ValueError, match=f"(?i)'{written}'"):
        parse(f"a {written}")


@pytest.mark.parametrize("more", ["DEFAULT 5", "PRIMARY KEY", "GENERATED ALWAYS AS (1)", "UNIQUE", "CHECK (a > 1)"])
def test_what_no_decoder_would_do_is_refused_rather_than_left_out(more: str) -> None:
    with pytest.raises(ValueError, match="'a'"):
        parse(f"a int {more}")
