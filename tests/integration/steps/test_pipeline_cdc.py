import json
from collections.abc import Iterator

import pytest
from deltalake import DeltaTable

from penstock.errors import BadInput
from penstock.kafka.producer import Producer
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.operate.settling import require_no_changes

from support.changes import Row, random_changes
from support.debezium import UNAVAILABLE, change
from support.iceberg_tables import iceberg_rows
from support.pipelines import Lab, dying
from support.postgres_driver import ask


def records(rows: list[Row]) -> Iterator[tuple[bytes | None, bytes | None, dict[str, bytes]]]:
    """Yield what Debezium writes of changes: keys, values and headers, and behind a deleted row a tombstone."""
    for lsn, row in enumerate(rows):
        number, part, doc, n, op, unchanged, back = row
        key = json.dumps({"id": number, "part": part}).encode()
        if op == "truncate":
            yield None, change("t"), {}
        elif op == "delete":
            moves = lsn + 1 < len(rows) and rows[lsn + 1][6] is not None
            before = {"id": number, "part": part, "doc": None, "n": None}
            yield key, change("d", before=before, lsn=lsn), {"__debezium.newkey": b"{}"} if moves else {}
            yield key, None, {}
        else:
            after = {"id": number, "part": part, "doc": UNAVAILABLE if unchanged else doc, "n": n}
            headers = {} if back is None else {"__debezium.oldkey": b"{}"}
            yield key, change("u" if back is None else "c", after, lsn=lsn - (back or 0)), headers


def test_changes_of_a_table_become_the_same_table_in_delta_iceberg_and_postgres_and_a_history(
    lab: Lab, postgres: RunningPostgres
) -> None:
    topic = lab.kafka.topic("mirrored", partitions=1)
    server = postgres.database("mirror")
    key = ["id", "part"]
    schema = "id bigint NOT NULL, part string NOT NULL, doc string, n int"
    spec = lab.spec(
        topic,
        decode={"type": "raw"},
        steps=[{"cdc": "state", "schema": schema}],
        sinks=[
            {"type": "delta", "path": str(lab.table), "key": key},
            {"type": "iceberg", "path": str(lab.folder / "iceberg"), "key": key},
            {"type": "postgres", "server": server, "table": "orders", "mode": "upsert", "key": key},
        ],
        batch={"max_events": 20},
    )
    count, expected = 0, {}
    for number, (rows, table) in enumerate(random_changes(7)):
        with Producer(lab.connection) as producer:
            for its_key, value, headers in records(rows):
                producer.send(topic, value, key=its_key, headers=headers)
                count += value is not None
        expected = table
        if number in {3, 5}:
            with dying("in_commit:iceberg" if number == 3 else "in_commit:postgres"):
                lab.run(spec)
    lab.run(spec)
    history = lab.folder / "history"
    lab.run(
        lab.spec(
            topic,
            name=f"{topic}-history",
            decode={"type": "raw"},
            steps=[{"cdc": "history", "schema": schema}],
            sinks=[{"type": "delta", "path": str(history)}],
        )
    )

    in_delta = DeltaTable(str(lab.table)).to_pyarrow_table().to_pylist()
    assert expected == {(row["id"], row["part"]): (row["doc"], row["n"]) for row in in_delta}
    in_iceberg = iceberg_rows(lab.folder / "iceberg")
    assert expected == {(row["id"], row["part"]): (row["doc"], row["n"]) for row in in_iceberg}
    assert len(expected) == len(in_delta) == len(in_iceberg)
    assert expected == {row[:2]: row[2:] for row in ask(server, "SELECT id, part, doc, n FROM orders")}
    assert count == DeltaTable(str(history)).to_pyarrow_table().num_rows
    assert [] == lab.letters(topic)
    with pytest.raises(BadInput, match="a change of the past would undo what came after"):
        require_no_changes(spec)
