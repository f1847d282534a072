"""Python steps on rows, pandas and Arrow: an exception costs its record, a dead worker its culprit, nobody else."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from support.pipelines import Lab, record_errors, total

# Workers keep modules between batches, so each test has a module of its own.
_numbers = itertools.count(1)


def rules(folder: Path, text: str) -> str:
    """Write a module beside the pipeline; give its name."""
    name = f"rules_{next(_numbers)}"
    (folder / f"{name}.py").write_text(text)
    return name


ROWS = """
def step(row):
    if row["id"] == 3:
        raise LookupError("no three")
    if row["id"] == 5:
        return None
    return {**row, "name": f'{row["name"]}/{row["_partition"]}/{row["_offset"]}'}
"""
PANDAS = """
def step(frame):
    if (frame["id"] == 3).any():
        raise LookupError("no three")
    frame["name"] = frame["name"] + "/0/" + frame["id"].astype(str)
    return frame[frame["id"] != 5]
"""
ARROW = """
import pyarrow as pa
import pyarrow.compute as pc

def step(table):
    ids = table.column("id")
    if pc.any(pc.equal(ids, 3)).as_py():
        raise LookupError("no three")
    name = pc.binary_join_element_wise(table.column("name"), ids.cast(pa.string()), "/0/")
    return table.set_column(table.schema.get_field_index("name"), "name", name)
"""


@pytest.mark.parametrize(
    ("on", "text", "dropped"), [("rows", ROWS, [5]), ("pandas", PANDAS, [5]), ("arrow", ARROW, [])]
)
def test_an_exception_fails_its_record_and_the_others_land(on: str, text: str, dropped: list[int], lab: Lab) -> None:
    topic = lab.kafka.topic(f"python-{on}")
    lab.send_ids(topic, range(8))
    module = rules(lab.folder, text)

    reports = lab.run(lab.spec(topic, steps=[{"python": f"{module}:step", "on": on}]))

    kept = [number for number in range(8) if number != 3 and number not in dropped]
    assert [(number, f"n{number}/0/{number}") for number in kept] == [(row["id"], row["name"]) for row in lab.rows()]
    assert [(3, "step", "LookupError")] == record_errors(lab.letters(topic))
    line = next(number for number, each in enumerate(text.splitlines(), 1) if "raise" in each)
    assert [("no three", f'{module}.py:{line}: raise LookupError("no three")')] == [
        (letter.message, letter.line) for letter in lab.letters(topic)
    ]
    assert (8, len(kept), 1, len(dropped)) == _shown(total(reports))


def test_a_value_that_does_not_fit_the_promised_columns_fails_its_record(lab: Lab) -> None:
    topic = lab.kafka.topic("misfit")
    lab.send_ids(topic, range(3))
    module = rules(lab.folder, 'def step(row):\n    return {"score": "high" if row["id"] == 1 else row["id"] * 2}\n')

    lab.run(lab.spec(topic, steps=[{"python": f"{module}:step", "returns": "score int"}]))

    assert [0, 4] == [row["score"] for row in lab.rows()]
    assert [(1, "step", "SchemaMismatch")] == record_errors(lab.letters(topic))


def test_python_and_sql_take_turns(lab: Lab) -> None:
    topic = lab.kafka.topic("turns", partitions=2)
    lab.send_ids(topic, range(4), partition=0)
    lab.send_ids(topic, range(10, 14), partition=1)
    module = rules(
        lab.folder,
        'def half(row):\n    return {"id": row["id"], "h": 6 / (row["id"] - 2)}\n\n'
        'def back(row):\n    return {"id": row["id"], "text": str(row["h1"])}\n',
    )
    steps: list[dict[str, Any]] = [
        {"sql": "SELECT * FROM events WHERE id <> 3"},
        {"python": f"{module}:half", "returns": "id bigint, h double"},
        {"sql": "SELECT id, h + 1 AS h1 FROM events"},
        {"python": f"{module}:back", "returns": "id bigint, text string"},
    ]

    reports = lab.run(lab.spec(topic, steps=steps))

    assert [0, 1, 10, 11, 12, 13] == lab.ids()
    assert "-2.0" == next(row["text"] for row in lab.rows() if row["id"] == 0)
    assert [(2, "step", "ZeroDivisionError")] == record_errors(lab.letters(topic))
    assert (8, 6, 1, 1) == _shown(total(reports))


def test_a_record_that_kills_its_worker_is_the_only_one_blamed(lab: Lab) -> None:
    topic = lab.kafka.topic("killer", partitions=2)
    lab.send_ids(topic, range(20), partition=0)
    lab.send_ids(topic, range(20, 40), partition=1)
    module = rules(
        lab.folder, 'import os\n\ndef step(row):\n    if row["id"] == 13:\n        os._exit(1)\n    return row\n'
    )

    reports = lab.run(lab.spec(topic, steps=[{"python": f"{module}:step"}]))

    assert [number for number in range(40) if number != 13] == lab.ids()
    assert [(13, "step", "WorkerDied")] == record_errors(lab.letters(topic))
    assert (40, 39, 1, 0) == _shown(total(reports))


def test_a_record_that_kills_its_worker_in_a_table_is_found_among_its_neighbours(lab: Lab) -> None:
    topic = lab.kafka.topic("killer-arrow")
    lab.send_ids(topic, range(3))
    seen = '1 in table.column("id").to_pylist()'
    module = rules(
        lab.folder, f"import os\n\ndef step(table):\n    if {seen}:\n        os._exit(1)\n    return table\n"
    )

    lab.run(lab.spec(topic, steps=[{"python": f"{module}:step", "on": "arrow"}]))

    assert [0, 2] == lab.ids()
    assert [(1, "step", "WorkerDied")] == record_errors(lab.letters(topic))


def test_a_worker_that_dies_only_once_costs_nobody_anything(lab: Lab) -> None:
    topic = lab.kafka.topic("once")
    lab.send_ids(topic, range(20))
    module = rules(
        lab.folder,
        "import os\nfrom pyspark import TaskContext\n\ndef step(row):\n"
        '    if row["id"] == 7 and TaskContext.get().attemptNumber() == 0:\n        os._exit(1)\n    return row\n',
    )

    reports = lab.run(lab.spec(topic, steps=[{"python": f"{module}:step"}]))

    assert list(range(20)) == lab.ids()
    assert [] == lab.letters(topic)
    assert (20, 20, 0, 0) == _shown(total(reports))


def _shown(count: Any) -> tuple[int, int, int, int]:
    return count.read, count.written, count.dead, count.dropped
