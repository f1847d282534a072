"""The decoder `openlineage`: one row for an event, one reason for what is none."""

import json

import pyarrow as pa

from penstock.decoders.decoder import DecoderContext
from penstock.lineage.decoder import OpenLineage
from penstock.record.decoded import Decoded
from penstock.record.positions import SourcePartition

from support.lineage_samples import AIRFLOW, DAG_RUN, PLAIN


def decoded(*values: bytes | None) -> tuple[list[dict[str, object]], Decoded]:
    model = OpenLineage()
    made = model.open(DecoderContext(SourcePartition("input.runs", "id", 0))).decode(values)
    return pa.RecordBatch.from_arrays(made.columns, schema=model.arrow_schema).to_pylist(), made


def test_an_event_is_passed_on_as_it_came() -> None:
    value = json.dumps(AIRFLOW[0]).encode()

    (row,), made = decoded(value)

    assert (value.decode(), DAG_RUN, "START", "orders_daily") == (
        row["event"],
        row["run_id"],
        row["event_type"],
        row["job_name"],
    )
    assert [None] == made.record_errors


def test_an_event_about_a_dataset_alone_is_a_row_without_a_run() -> None:
    (row,), _ = decoded(json.dumps(PLAIN[2]).encode())

    assert (None, None) == (row["run_id"], row["job_name"])


def test_one_bad_event_costs_itself_alone() -> None:
    good = json.dumps(AIRFLOW[0]).encode()

    rows, made = decoded(good, b"{", None, good)

    assert [None, "Malformed", "Tombstone", None] == [each and each["error"] for each in made.record_errors]
    assert [good.decode(), None, None, good.decode()] == [row["event"] for row in rows]
    assert [False] * 4 == made.dropped


def test_no_events_are_no_rows() -> None:
    rows, _ = decoded()

    assert [] == rows
