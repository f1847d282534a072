"""Ranges that can never get to their end: what they had settled is open again, and nobody writes on."""

import pytest

from penstock.config import settings
from penstock.delivery.dead_letters import SINK_NAME
from penstock.driver import batch
from penstock.errors import Conflict, RetentionPassed
from penstock.kafka import topics
from penstock.operate import range_replay
from penstock.operate.status import Status

from support.pipelines import Lab
from support.range_replays import NEW, OLD, begin, go_on, named, open_letters, write


@pytest.mark.parametrize("when", ["while it runs", pytest.param("before it goes on", marks=pytest.mark.soak)])
def test_a_topic_that_is_deleted_half_way_ends_a_range_and_opens_the_letters_that_it_has_not_got_to(
    lab: Lab, when: str
) -> None:
    topic = lab.kafka.topic("replay-deleted")
    lab.send_ids(topic, range(30))
    lab.run(lab.spec(topic, steps=[{"sql": OLD}]))
    file = write(lab, lab.document(topic, steps=[{"sql": NEW}], batch={"max_events": 10}))
    begun = begin(lab, file, "0", "30")

    def delete(status: Status) -> None:
        assert 1 == status.batches
        topics.delete(lab.kafka.admin(), topic)
        if when == "before it goes on":
            raise KeyboardInterrupt

    if when == "before it goes on":
        with pytest.raises(KeyboardInterrupt):
            go_on(lab, begun, delete)
    with pytest.raises(RetentionPassed, match="Begin a new replay of what is left"):
        go_on(lab, begun, delete)
    with pytest.raises(Conflict, match="was given up"):
        go_on(lab, begun)

    assert [(0, 13), (0, 23)] == open_letters(lab, topic)
    assert {number: ["new"] if number < 10 else ["old"] for number in range(30) if number not in {13, 23}} == {
        offset: names for (_, offset), names in named(lab).items()
    }


def test_a_range_that_ends_in_one_home_folder_is_not_written_on_in_another(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = lab.kafka.topic("replay-two-homes")
    lab.send_ids(topic, range(30))
    lab.run(lab.spec(topic, steps=[{"sql": OLD}]))
    file = write(lab, lab.document(topic, steps=[{"sql": NEW}], batch={"max_events": 10}))
    begun = begin(lab, file, "0", "30")
    elsewhere = settings.load(home=lab.folder / "elsewhere", bootstrap=lab.connection.bootstrap_servers)
    told: list[str] = []

    def end_elsewhere(point: str, sink: str = "") -> None:
        """While the second batch is about to be committed to the sink, records of the third are deleted."""
        if (point, sink) == ("sink_committed", SINK_NAME) and len(named_new()) == 10:
            topics.purge(lab.kafka.admin(), topic, {0: 25})
            with pytest.raises(RetentionPassed) as caught:
                range_replay.run(
                    elsewhere, range_replay.find(elsewhere, topic, begun.range.id, file), show=lambda _status: None
                )
            told.append(caught.value.what)

    def named_new() -> list[int]:
        return [offset for (_, offset), names in named(lab).items() if names == ["new"]]

    with monkeypatch.context() as patch:
        patch.setattr(batch, "crash_point", end_elsewhere)
        with pytest.raises(Conflict, match=f"the replay {begun.range.id} was given up"):
            go_on(lab, begun)

    assert 1 == len(told)
    assert [(0, 13), (0, 23)] == open_letters(lab, topic)
    assert {*range(10)} == {*named_new()}
    assert {1} == {len(names) for names in named(lab).values()}
