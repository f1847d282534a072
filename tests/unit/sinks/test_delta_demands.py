"""Delta tables that others have made or changed: written right, or refused before anything is written."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from penstock.errors import Conflict
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sinks.delta import Delta, DeltaSink
from penstock.sinks.merging import MergeContext

TOTALS = MergeContext("delta", "totals")
TP = SourcePartition("orders", "Ab-_9", 0)
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


def made(
    path: Path,
    *,
    writer: int = 2,
    features: list[str] | None = None,
    settings: dict[str, str] | None = None,
    about_id: dict[str, Any] | None = None,
    nullable: bool = True,
    partitions: list[str] | None = None,
) -> None:
    """Write the log of a table as any tool could have made it."""
    fields = [
        {"name": "id", "type": "long", "nullable": nullable, "metadata": about_id or {}},
        {"name": "text", "type": "string", "nullable": True, "metadata": {}},
    ]
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": writer}
    if features is not None:
        of_readers = [each for each in features if each in {"deletionVectors", "timestampNtz"}]
        lists = {"readerFeatures": of_readers, "writerFeatures": features}
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **lists}
    metadata = {
        "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": partitions or [],
        "configuration": settings or {},
        "createdTime": 1,
    }
    log = path / "_delta_log"
    log.mkdir(parents=True)
    lines = [{"protocol": protocol}, {"metaData": metadata}]
    (log / "00000000000000000000.json").write_text("\n".join(map(json.dumps, lines)) + "\n")


def opened(path: Path) -> DeltaSink:
    sink = DeltaSink(Delta(path=path), "delta", "orders")
    sink.open(SCHEMA)
    return sink


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({"partitions": ["text"]}, "is partitioned by text"),
        ({"writer": 3, "settings": {"delta.constraints.small": "id < 9"}}, r"has the constraint 'small' \(id < 9\)"),
        ({"settings": {"delta.setTransactionRetentionDuration": "interval 7 days"}}, "forgets positions after a while"),
        ({"nullable": False}, "takes no nulls in the column 'id'"),
        ({"about_id": {"delta.invariants": '{"expression":{"expression":"id > 3"}}'}}, "condition on the column 'id'"),
        ({"writer": 4, "about_id": {"delta.generationExpression": "1 + 1"}}, "computes the column 'id'"),
        ({"features": ["identityColumns"], "about_id": {"delta.identity.start": 1}}, "computes the column 'id'"),
        ({"writer": 6}, "asks for version 6"),
        ({"features": ["deletionVectors"]}, "the feature 'deletionVectors'"),
        ({"features": ["rowTracking", "domainMetadata"]}, "the feature 'domainMetadata'"),
        ({"features": ["inCommitTimestamp"]}, "the feature 'inCommitTimestamp'"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_table_that_asks_for_more_than_is_kept_is_refused_at_the_start(
    tmp_path: Path, table: dict[str, Any], reason: str
) -> None:
    made(tmp_path / "t", **table)

    with pytest.raises(Conflict, match=reason):
        opened(tmp_path / "t")


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"writer": 4, "settings": {"delta.enableChangeDataFeed": "true"}},
        {"settings": {"delta.appendOnly": "true"}},
        {"features": ["timestampNtz", "invariants", "checkConstraints"]},
    ],
    ids=str,
)
def test_a_table_that_asks_for_what_is_kept_is_written_to(tmp_path: Path, table: dict[str, Any]) -> None:
    made(tmp_path / "t", **table)

    assert {} == opened(tmp_path / "t").positions([TP])


def test_a_constraint_that_comes_while_the_pipeline_runs_is_reported_before_the_next_batch(tmp_path: Path) -> None:
    sink = opened(tmp_path / "t")
    DeltaTable(str(tmp_path / "t")).alter.add_constraint({"small": "id < 9"})

    with pytest.raises(Conflict, match="has the constraint 'small'"):
        sink.positions([TP])


def test_rows_of_an_append_only_table_cannot_be_replaced(tmp_path: Path) -> None:
    made(tmp_path / "t", settings={"delta.appendOnly": "true"})
    sink = DeltaSink(Delta(path=tmp_path / "t"), "delta", "orders")
    sink.replace({TP: [OffsetRange(TP, 0, 9)]})

    with pytest.raises(Conflict, match="is append-only"):
        sink.open(SCHEMA)


def test_results_go_into_partitions_and_not_past_a_constraint(tmp_path: Path) -> None:
    made(tmp_path / "parts", partitions=["text"])
    made(tmp_path / "limited", writer=3, settings={"delta.constraints.small": "id < 9"})
    rows = pa.table({"id": [100], "text": ["a"]})

    Delta(path=tmp_path / "parts", key=["id"]).open_merge(TOTALS).merge(ds.dataset(rows), None, 1)
    with pytest.raises(Conflict, match="has the constraint 'small'"):
        Delta(path=tmp_path / "limited", key=["id"]).open_merge(TOTALS).merge(ds.dataset(rows), None, 1)

    assert rows.to_pylist() == DeltaTable(str(tmp_path / "parts")).to_pyarrow_table().to_pylist()
