"""`penstock.run` and `penstock.load`: a pipeline as a Python program has it, on this process's Spark."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

import pytest
from deltalake import DeltaTable

import penstock
from penstock import Account, BadInput, BrokerUnavailable, Mistakes, NotFound

from support.pipelines import Lab
from support.waiting import until


def test_run_returns_the_account_of_what_it_did_and_the_next_run_goes_on_there(lab: Lab) -> None:
    topic = lab.kafka.topic("from-python")
    file = lab.written(topic, batch={"max_events": 20})
    lab.send_ids(topic, range(49))
    lab.send(topic, "no JSON")

    first = penstock.run(str(file), home=lab.kafka.home)
    second = penstock.run(file, home=lab.kafka.home)

    counts = {"events": 50, "rows": {"delta": 49}, "dead_letters": 1, "batches": 3}
    assert {"pipeline": topic, "state": "finished", **counts} == first.model_dump(exclude={"seconds"})
    assert first.seconds > 0
    assert (0, 0, {}) == (second.events, second.batches, second.rows)
    assert list(range(49)) == lab.ids()
    with pytest.raises(ValueError, match="frozen"):
        first.events = 1  # type: ignore[misc]


def test_a_stream_in_another_thread_runs_until_it_is_told_to_stop_and_finishes_its_batch(lab: Lab) -> None:
    topic = lab.kafka.topic("from-thread")
    file = lab.written(topic, speed="stream")
    stopping = Event()

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(penstock.run, file, home=lab.kafka.home, stopping=stopping)
        try:
            lab.send_ids(topic, range(30))
            until(lambda: running.done() or (DeltaTable.is_deltatable(str(lab.table)) and len(lab.ids()) == 30))
        finally:
            stopping.set()
        account: Account = running.result(240)

    assert ("stopped", 30, {"delta": 30}) == (account.state, account.events, account.rows)
    assert list(range(30)) == lab.ids()


def test_two_pipelines_with_equally_named_modules_each_run_their_own_in_spark_s_workers_too(lab: Lab) -> None:
    topic = lab.kafka.topic("namesakes")
    lab.send_ids(topic, range(3))
    folders = [replace(lab, folder=lab.folder / each) for each in ("one", "two")]
    for each in folders:
        each.folder.mkdir()
        (each.folder / "rules.py").write_text(
            "import helping\n\ndef step(row):\n    return {**row, 'name': helping.NAME}\n", encoding="utf-8"
        )
        (each.folder / "helping.py").write_text(f"NAME = {each.folder.name!r}\n", encoding="utf-8")
    files = [
        each.written(topic, name=f"{topic}-{each.folder.name}", steps=[{"python": "rules:step"}]) for each in folders
    ]

    for file in files:
        penstock.run(file, home=lab.kafka.home)

    assert [["one"] * 3, ["two"] * 3] == [[row["name"] for row in each.rows()] for each in folders]


def test_what_goes_wrong_is_an_error_of_the_tree(lab: Lab) -> None:
    missing_topic = lab.written("no-such-topic-from-python")
    wrong = lab.folder / "wrong.yaml"
    wrong.write_text("name: wrong\nsorce: {topics: [a]}\n", encoding="utf-8")

    with pytest.raises(NotFound, match="no-such-topic-from-python"):
        penstock.run(missing_topic, home=lab.kafka.home)
    with pytest.raises(NotFound, match="there is no pipeline file"):
        penstock.run("nowhere.yaml")
    with pytest.raises(Mistakes, match="did you mean 'source'"):
        penstock.load(wrong)
    with pytest.raises(BrokerUnavailable):
        penstock.run(missing_topic, bootstrap="127.0.0.1:1", home=lab.folder / "home")
    assert issubclass(Mistakes, BadInput)


def test_load_returns_the_pipeline_and_starts_nothing(lab: Lab) -> None:
    pipeline = penstock.load(str(lab.written("loaded")))

    assert ("loaded", ["delta"]) == (pipeline.name, list(pipeline.sink_names))
    assert not lab.table.exists()
