"""A column that comes in mid-stream by a restart with a new file, while drivers are killed, also in the very commit."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable

from penstock.errors import Conflict
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.sinks.tables import history

from conftest import RunningKafka
from support.chains import Chain, make_chain
from support.delta_tables import rows_by_duckdb
from support.iceberg_tables import iceberg_rows
from support.landing import SCHEMA, expected

BEFORE = "n bigint NOT NULL, sha string NOT NULL"
KILLED = -9
RecordId = tuple[int, int]
Keys = dict[RecordId, str | None]


def rewrite(chain: Chain, schema: str, **delta: Any) -> None:
    """Change the pipeline file as its user does: the columns that are decoded, and how the Delta table is kept."""
    pipeline = yaml.safe_load(chain.file.read_text())
    pipeline["decode"]["schema"] = schema
    for sink in pipeline["sinks"]:
        sink.update(delta if sink["type"] == "delta" else {})
    chain.file.write_text(yaml.safe_dump(pipeline))


def keys_in(rows: Iterable[dict[str, Any]]) -> Keys:
    return {(row["_partition"], row["_offset"]): row.get("key") for row in rows}


# The first three have yet to add the column: in PostgreSQL, then in Delta, then in Iceberg.
ADDING = ["in_commit:postgres", "in_commit:delta", "in_commit:iceberg"]


@pytest.mark.parametrize(
    "points",
    [
        pytest.param(ADDING, id="commits"),
        pytest.param([*ADDING, "compacted:delta"], id="and a compaction", marks=pytest.mark.soak),
    ],
)
def test_a_new_column_is_null_before_and_filled_after_whatever_is_killed(
    points: list[str], kafka: RunningKafka, postgres: RunningPostgres, tmp_path: Path
) -> None:
    chain = make_chain(["postgres", "delta", "iceberg"], kafka, postgres, tmp_path)
    server = yaml.safe_load(chain.file.read_text())["sinks"][0]["server"]

    def of_postgres() -> Keys:
        with postgres.connect(server["database"]) as connection:
            cursor = connection.execute("SELECT * FROM landed")
            names = [column.name for column in cursor.description or ()]
            return keys_in(dict(zip(names, row, strict=True)) for row in cursor)

    def of_delta() -> Keys:
        return keys_in(rows_by_duckdb(tmp_path / "delta").to_pylist())

    def of_iceberg() -> Keys:
        return keys_in(iceberg_rows(tmp_path / "iceberg"))

    readers: dict[str, Callable[[], Keys]] = {"postgres": of_postgres, "delta": of_delta, "iceberg": of_iceberg}
    rewrite(chain, BEFORE, compact={"every": 2})
    chain.journal.send(1500)
    assert KILLED == chain.drive(PENSTOCK_CRASH_AT="in_commit:delta", PENSTOCK_CRASH_AFTER="1").wait()
    landed = {name: read() for name, read in readers.items()}

    rewrite(chain, SCHEMA)
    for point in points:
        chain.journal.send(1500)
        assert KILLED == chain.drive(PENSTOCK_CRASH_AT=point).wait(), point
    both = [chain.drive(), chain.drive()]
    codes = sorted(driver.wait() for driver in both)

    assert [0, Conflict.exit_code] == codes, both[0].said
    assert [] == chain.faults()
    acknowledged = chain.journal.acknowledged.items()
    sent = {record: json.loads(value)["key"] for record, value in acknowledged if expected(value)}
    for name, read in readers.items():
        found = read()
        assert landed[name].keys() == {record for record, key in found.items() if key is None}, name
        assert {record: sent[record] for record in found.keys() - landed[name].keys()} == {
            record: key for record, key in found.items() if key is not None
        }, name
    assert len(landed["delta"]) < len(landed["postgres"])
    operations = [each["operation"] for each in DeltaTable(str(tmp_path / "delta")).history()]
    assert "OPTIMIZE" in operations
    assert "REPLACE" in [each.operation for each in history(tmp_path / "iceberg", 100)]
