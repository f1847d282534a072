"""The Iceberg example, copied and run as its page says, and read back by DuckDB, which did not write it."""

import datetime

from penstock.pipeline.load import load

from conftest import Cli
from support.iceberg_tables import iceberg_rows
from support.pages import ROOT
from support.pipelines import Lab

COUNTS = 'SELECT name, count(*) AS orders FROM "{}" GROUP BY name ORDER BY name'


def test_the_example_lands_a_partition_for_each_day_and_its_table_answers(lab: Lab, cli: Cli) -> None:
    topic = lab.kafka.topic("orders")
    lab.send(topic, *(ROOT / "examples" / "tutorial" / "orders.jsonl").read_bytes().splitlines())
    lab.send(topic, {"id": 7, "name": "ada", "amount": 1.5, "at": "2026-02-01T00:00:00Z"})
    copied = cli("examples", "copy", "iceberg", lab.folder)
    file = lab.folder / "iceberg" / "iceberg.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("topics: [orders]", f"topics: [{topic}]").replace("iceberg-orders", topic))
    checked = cli("pipeline", "check", file)
    table = lab.folder / "iceberg" / "tables" / "orders"

    lab.run(load(file))
    asked = cli("table", "query", COUNTS.format(table))
    compacted = cli("table", "compact", table)

    assert (0, 0) == (copied.code, checked.code), copied.err + checked.err
    assert (0, ["name  orders", "ada        3", "bob        1"]) == (asked.code, asked.out.splitlines()), asked.err
    assert 0 == compacted.code, compacted.err
    days = {row["id"]: row["at"].astimezone(datetime.UTC).day for row in iceberg_rows(table)}
    assert {1: 31, 2: 31, 3: 31, 7: 1} == days
    assert [3, 4, 5] == [letter.offset for letter in lab.letters(topic)]
