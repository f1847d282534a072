"""A source and a decoder of another package: found by their entry points, and as good as the built-in ones."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from penstock.errors import Mistakes, NotFound
from penstock.kafka.connection import Connection
from penstock.pipeline.load import load
from penstock.pipeline.spec import PipelineSpec
from penstock.record.positions import OffsetRange
from penstock.sources.source import SourceContext
from penstock.testing import run

from support.packages import install_example

CONTEXT = SourceContext(Connection(bootstrap_servers="127.0.0.1:1"))


@pytest.fixture(autouse=True)
def outbox_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_example(tmp_path / "packages", "sqlite_outbox", "penstock_outbox")
    monkeypatch.syspath_prepend(tmp_path / "packages")


def written(folder: Path, **keys: str) -> Path:
    document = {
        "source": "{type: sqlite_outbox, path: outbox.db}",
        "decode": "{type: csv, columns: [id, name]}",
        "sinks": "[{type: delta, path: table}]",
        **keys,
    }
    file = folder / "p.yaml"
    file.write_text("name: p\n" + "".join(f"{key}: {value}\n" for key, value in document.items()))
    return file


def filled(folder: Path, *values: str | None) -> None:
    with closing(sqlite3.connect(folder / "outbox.db")) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT)")
        connection.executemany("INSERT INTO outbox (value) VALUES (?)", [(value,) for value in values])


def test_a_decoder_of_an_installed_package_makes_rows_and_dead_letters(tmp_path: Path) -> None:
    outcome = run(written(tmp_path), ['1,"Ann, the first"', "2", b"\xff,x", "3,Bob"])

    assert [{"id": "1", "name": "Ann, the first"}, {"id": "3", "name": "Bob"}] == outcome.rows
    assert [(1, "SchemaMismatch", "1 fields, and 2 columns"), (2, "Malformed")] == [
        (letter.offset, letter.error, letter.message)[: 3 if letter.offset == 1 else 2] for letter in outcome.dead
    ]


def test_a_source_of_an_installed_package_is_read_by_offset_ranges(tmp_path: Path) -> None:
    source = load(written(tmp_path)).source.open(CONTEXT)
    filled(tmp_path, "1,Ann", None)
    (before,) = source.available()
    filled(tmp_path, "3,Cid")
    (after,) = source.available()

    chunks = list(source.reader().chunks(OffsetRange(after.source_partition, before.end, after.end)))

    assert [(0, 3), (0, 4)] == [(each.first, each.end) for each in (before, after)]
    assert [(3, b"3,Cid")] == [(row["_offset"], row["_value"]) for batch, _ in chunks for row in batch.to_pylist()]
    assert 4 == chunks[-1][1]


def test_what_such_a_source_raises_is_told_as_it_is(tmp_path: Path) -> None:
    source = load(written(tmp_path)).source.open(CONTEXT)

    with pytest.raises(NotFound, match="no SQLite file"):
        source.available()


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"sinks": "[{type: kafka, topic: out}]"}, "Kafka cannot keep a position"),
        (
            {"source": "{topics: [in]}", "sinks": "[{type: kafka, topic: out}]", "speed": "realtime"},
            "Spark decodes, and cannot decode `csv`",
        ),
        ({"speed": "realtime"}, "named Kafka topics"),
        ({"decode": "{type: csv, colums: [id]}"}, "decode.colums: this key is not known"),
        ({"decode": "{type: cvs}"}, "did you mean 'csv'?"),
        ({"source": "{type: sqlite_outbx}"}, "did you mean 'sqlite_outbox'?"),
    ],
)
def test_what_they_cannot_do_is_told_before_anything_starts(
    tmp_path: Path, keys: dict[str, str], expected: str
) -> None:
    with pytest.raises(Mistakes) as caught:
        load(written(tmp_path, **keys))

    assert expected in str(caught.value)


def test_they_are_the_same_after_a_round_trip(tmp_path: Path) -> None:
    spec = load(written(tmp_path))

    again = PipelineSpec.model_validate(spec.model_dump(mode="json", by_alias=True))

    assert again == spec
