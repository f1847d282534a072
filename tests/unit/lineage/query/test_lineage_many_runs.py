import datetime
import time
from typing import Any

import pytest
from sqlalchemy import event, insert

from penstock.lineage.query.lineage import lineage_values
from penstock.lineage.query.walk import Start
from penstock.lineage.query.window import Window
from penstock.lineage.store import tables

from support.lineage_rows import NOON, Rows, uuid7

_DAY = Window(NOON - datetime.timedelta(hours=12), NOON + datetime.timedelta(hours=12))


def _chain(rows: Rows, runs: int) -> list[int]:
    """Put in five jobs that hand six tables on, with so many runs in all; give the tables."""
    chain = [rows.dataset(f"table_{number}") for number in range(6)]
    jobs = [rows.job(f"job_{number}") for number in range(5)]
    made: dict[Any, list[dict[str, Any]]] = {tables.run: [], tables.operation: [], tables.input_: [], tables.output: []}
    for number in range(runs):
        step, at = number % 5, NOON + datetime.timedelta(seconds=number)
        run_id, operation_id = uuid7(at, number), uuid7(at, 100_000 + number)
        made[tables.run].append({"created_at": at, "id": run_id, "job_id": jobs[step], "status": 1})
        made[tables.operation].append(
            {"created_at": at, "id": operation_id, "run_id": run_id, "status": 1, "name": "o"}
        )
        io_row = {"created_at": at, "operation_id": operation_id, "run_id": run_id, "job_id": jobs[step], "num_rows": 1}
        made[tables.input_].append({**io_row, "dataset_id": chain[step]})
        made[tables.output].append({**io_row, "dataset_id": chain[step + 1], "type": 1})
    with rows.engine.begin() as connection:
        for table, values in made.items():
            connection.execute(insert(table), values)
    return chain


def _everything(rows: Rows, start: int) -> dict[str, Any]:
    with rows.engine.connect() as connection:
        return lineage_values(
            connection, Start("DATASET", start), direction="BOTH", granularity="RUN", depth=10, window=_DAY
        )


def test_a_level_is_asked_for_at_once_however_many_runs_are_in_it(rows: Rows) -> None:
    start = _chain(rows, 200)[0]
    asked: list[str] = []

    def hear(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        asked.append(statement)

    event.listen(rows.engine, "before_cursor_execute", hear)
    found = _everything(rows, start)
    event.remove(rows.engine, "before_cursor_execute", hear)

    assert (200, 6) == (len(found["nodes"]["runs"]), len(found["nodes"]["datasets"]))
    assert len(asked) < 40


@pytest.mark.soak
def test_depth_ten_over_ten_thousand_runs_takes_two_seconds_at_most(rows: Rows) -> None:
    start = _chain(rows, 10_000)[0]

    started = time.process_time()
    found = _everything(rows, start)
    taken_s = time.process_time() - started

    assert (10_000, 6) == (len(found["nodes"]["runs"]), len(found["nodes"]["datasets"]))
    assert taken_s < 2, f"it took {taken_s:.1f} s"  # 0.7 s where others work at the same time
