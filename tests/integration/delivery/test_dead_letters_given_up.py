"""A replay of dead letters that is given up: what no sink has is open again, and nothing is written twice."""

import json

import pytest

from penstock.config import settings
from penstock.delivery.dead_letters import SINK_NAME
from penstock.delivery.selection import Filter, select
from penstock.driver import batch
from penstock.errors import Conflict
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.operate import replay as replays
from penstock.operate.replay import GivenUp

from conftest import Cli
from support.dead_letters import FIXED, SHARE, open_letters, replay, write
from support.pipelines import Lab, dying


def test_letters_of_a_replay_that_is_given_up_are_open_again_if_no_sink_has_them(
    lab: Lab, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = lab.kafka.topic("dead-given-up")
    lab.send_ids(topic, range(40))
    failing = "SELECT id, CASE WHEN id % 10 = 3 THEN string(1 / (id - id)) ELSE name END AS name FROM events"
    lab.run(lab.spec(topic, steps=[{"sql": failing}]))
    less = failing.replace("id % 10 = 3", "id = 23")
    file = write(lab, lab.document(topic, steps=[{"sql": less}], batch={"max_events": 2}))
    given = settings.load(home=lab.kafka.home)
    begun = replays.begin(given, list(select(lab.connection, Filter(pipeline=topic))), file)
    # The first two are written; of the others, one has failed again and one is nowhere.
    monkeypatch.setenv("PENSTOCK_CRASH_AFTER", "1")
    with dying("sink_committed:dead"):
        replays.run(given, begun)

    said = cli("dead", "give-up", begun.id, "--yes", home=lab.kafka.home)
    again = cli("dead", "give-up", begun.id, "--yes", home=lab.kafka.home)
    with pytest.raises(Conflict, match="was given up"):
        replays.run(given, replays.find(given, begun.id))
    left = open_letters(lab, topic)
    fixed = write(lab, lab.document(topic), "fixed.yaml")
    replay(lab, fixed, pipeline=topic)

    assert (0, 6) == (said.code, again.code)
    assert f"replay {begun.id} given up: 1 letter open again, 3 settled" in said.err
    assert [(23, 2), (33, 1)] == [(offset, attempt) for offset, _, attempt in left]
    assert list(range(40)) == lab.ids()
    assert [] == open_letters(lab, topic)


def test_letters_that_are_given_up_elsewhere_while_their_replay_runs_are_written_once(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = lab.kafka.topic("dead-fenced")
    lab.send_ids(topic, range(4))
    failing = "SELECT id, string(1 / (id - id)) AS name FROM events"
    lab.run(lab.spec(topic, steps=[{"sql": failing}]))
    file = write(lab, lab.document(topic, batch={"max_events": 2}))
    given = settings.load(home=lab.kafka.home)
    elsewhere = settings.load(home=lab.folder / "elsewhere", bootstrap=lab.connection.bootstrap_servers)
    begun = replays.begin(given, list(select(lab.connection, Filter(pipeline=topic))), file)
    opened: list[GivenUp] = []

    def give_up_elsewhere(*_: object) -> None:
        opened.append(replays.give_up(elsewhere, begun.id, file))

    with monkeypatch.context() as patch:
        patch.setattr(replays, "account", give_up_elsewhere)
        with pytest.raises(Conflict, match=f"the replay {begun.id} was given up"):
            replays.run(given, begun)
    replay(lab, file, pipeline=topic)

    assert [GivenUp(replay=begun.id, open_again=2, open_for_one_sink=0, settled=2)] == opened
    assert list(range(4)) == lab.ids()
    assert [] == open_letters(lab, topic)


@pytest.mark.parametrize("is_ended", [True, False])
def test_a_replay_that_is_about_to_commit_to_its_sinks_is_ended_there_by_who_gives_it_up(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, *, is_ended: bool
) -> None:
    topic = lab.kafka.topic("dead-between")
    lab.send_ids(topic, range(2))
    lab.run(lab.spec(topic, steps=[{"sql": "SELECT id, string(1 / (id - id)) AS name FROM events"}]))
    file = write(lab, lab.document(topic))
    given = settings.load(home=lab.kafka.home)
    elsewhere = settings.load(home=lab.folder / "elsewhere", bootstrap=lab.connection.bootstrap_servers)
    begun = replays.begin(given, list(select(lab.connection, Filter(pipeline=topic))), file)

    def give_up_elsewhere(point: str, sink: str = "") -> None:
        if (point, sink) == ("sink_committed", SINK_NAME if is_ended else "delta"):
            opened.append(replays.give_up(elsewhere, begun.id, file).open_again)

    opened: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(batch, "crash_point", give_up_elsewhere)
        with pytest.raises(Conflict, match=f"the replay {begun.id} was given up"):
            replays.run(given, begun)
    left = open_letters(lab, topic)
    if left:
        replay(lab, file, pipeline=topic)

    assert ([2], 2) == (opened, len(left)) if is_ended else ([0], 0) == (opened, len(left))
    assert [0, 1] == lab.ids()
    assert [] == open_letters(lab, topic)


def test_letters_that_one_sink_has_and_another_lacks_are_open_again_for_that_one(
    lab: Lab, postgres: RunningPostgres
) -> None:
    topic = lab.kafka.topic("dead-halved")
    server = postgres.database()
    login = {**server.model_dump(exclude_defaults=True), "password": f"file:{postgres.password_file}"}
    sinks = [
        {"type": "delta", "path": str(lab.table)},
        {"type": "postgres", "table": "landed", "server": login},
        {"type": "json", "path": str(lab.folder / "lines"), "gzip": False},
    ]
    lab.send_ids(topic, range(3))
    lab.run(lab.spec(topic, steps=[{"sql": SHARE}], sinks=sinks))
    file = write(lab, lab.document(topic, steps=[{"sql": FIXED}], sinks=sinks))
    given = settings.load(home=lab.kafka.home)
    begun = replays.begin(given, list(select(lab.connection, Filter(pipeline=topic))), file)
    with dying("sink_committed:delta"):
        replays.run(given, begun)

    said = replays.give_up(given, begun.id)
    left = list(select(lab.connection, Filter(pipeline=topic)))
    replay(lab, file, pipeline=topic)

    assert GivenUp(replay=begun.id, open_again=0, open_for_one_sink=2, settled=1) == said
    assert [(0, "json"), (0, "postgres")] == sorted((each.offset, each.sink or "") for each in left)
    with postgres.connect(server.database) as connection:
        in_postgres = [row[0] for row in connection.execute("SELECT id FROM landed ORDER BY id")]
    lines = [
        json.loads(line)["id"] for each in lab.folder.glob("lines/*.jsonl") for line in each.read_text().splitlines()
    ]
    assert [[0, 1, 2]] * 3 == [lab.ids(), in_postgres, sorted(lines)]
    assert {b'{"id": 0, "name": "n0"}'} == {message.value() for message in lab.dead_records(topic)}
    assert [] == open_letters(lab, topic)
