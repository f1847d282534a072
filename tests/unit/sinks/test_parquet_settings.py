"""How Parquet files are written."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.sinks.parquet_settings import parquet_settings


def written(rows: pa.Table, folder: Path) -> tuple[pa.Table, dict[str, bool]]:
    path = folder / "rows.parquet"
    pq.write_table(rows, path, **parquet_settings(rows))
    columns = [pq.read_metadata(path).row_group(0).column(number) for number in range(rows.num_columns)]
    return pq.ParquetFile(path).read(), {each.path_in_schema: each.has_dictionary_page for each in columns}


def test_only_what_repeats_has_a_dictionary(tmp_path: Path) -> None:
    count = 20_000
    rows = pa.table(
        {
            "id": range(count),
            "a.b": [f"note {number}" for number in range(count)],
            "country": ["de", "fr"] * (count // 2),
            "nothing": pa.nulls(count, pa.string()),
        }
    )

    read_back, has_dictionary = written(rows, tmp_path)

    assert rows == read_back
    assert {"id": False, "a.b": False, "country": True, "nothing": True} == has_dictionary


def test_columns_of_every_type_are_looked_at(tmp_path: Path) -> None:
    kinds = [
        pa.bool_(),
        pa.int8(),
        pa.float32(),
        pa.decimal128(38, 18),
        pa.date32(),
        pa.timestamp("us"),
        pa.timestamp("us", tz="UTC"),
        pa.binary(),
        pa.string(),
    ]
    rows = pa.table([pa.nulls(1000, kind) for kind in kinds], [f"c{number}" for number in range(len(kinds))])

    assert rows == written(rows, tmp_path)[0]


def test_tables_with_nested_columns_have_dictionaries_everywhere(tmp_path: Path) -> None:
    rows = pa.table({"id": range(1000), "tags": [["a", "b"]] * 1000})

    read_back, has_dictionary = written(rows, tmp_path)

    assert rows == read_back
    assert {"id": True, "tags.list.element": True} == has_dictionary
