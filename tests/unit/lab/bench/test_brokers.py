"""The comparison of brokers, as far as it needs no server: events, counting, the table, the picture."""

import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import orjson
import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.errors import BadInput, EnvironmentNotReady
from penstock.lab.bench.brokers import contenders, keeping
from penstock.lab.bench.brokers.contenders import Contender, Name
from penstock.lab.bench.brokers.deaths import ReaderDeath, ServerDeath, judge_reader
from penstock.lab.bench.brokers.game_events import GameEvents, is_event, marker
from penstock.lab.bench.brokers.keeping import Retained
from penstock.lab.bench.brokers.reader import Drained, Received, drain
from penstock.lab.bench.brokers.report import Measured, lines, panels, table
from penstock.lab.bench.brokers.speed import Speed, send_evenly
from penstock.lab.bench.drawing import Panel, bars, save_panels
from penstock.transports import Incoming, Outgoing


class Loudspeaker:
    """A broker in memory that gives what is sent to whoever has subscribed, and `doubled` numbers twice."""

    def __init__(self, *, slow_s: float = 0.0, doubled: int | None = None) -> None:
        self.batches: list[list[Outgoing]] = []
        self._slow_s = slow_s
        self._doubled = doubled
        self._heard: list[Incoming] = []
        self._listens = False

    def send(self, messages: Sequence[Outgoing]) -> None:
        self.batches.append(list(messages))
        for message in messages if self._listens else ():
            again = b'"number":%d}' % self._doubled in message.value if self._doubled is not None else False
            self._heard += [Incoming(message.value, message.key, None)] * (2 if again else 1)
        if len(self.batches) == 1:
            time.sleep(self._slow_s)

    def subscribe(self, _topic: str, _group: str) -> "Loudspeaker":
        self._listens = True
        return self

    def receive(self, max_messages: int, _timeout_s: float) -> list[Incoming]:
        found, self._heard = self._heard[:max_messages], self._heard[max_messages:]
        return found

    def acknowledge(self, _messages: Sequence[Incoming]) -> None:
        pass

    def close(self) -> None:
        pass


def numbers(messages: Sequence[Outgoing]) -> list[int]:
    return [orjson.loads(message.value)["number"] for message in messages]


def test_every_event_is_one_of_a_game_and_has_a_number_of_its_own() -> None:
    events = GameEvents(500)

    sent = [orjson.loads(message.value) for message in events.messages("t", range(700))]

    assert list(range(700)) == [event["number"] for event in sent]
    assert {"Match Started", "Hero Selected", "Attack Completed"} <= {event["message"] for event in sent}
    assert sent[0]["game_id"] == sent[500]["game_id"]


def test_the_same_games_are_played_every_time() -> None:
    first, second = GameEvents(200), GameEvents(200)

    def without_time(events: GameEvents) -> list[dict[str, Any]]:
        return [{**orjson.loads(each.value), "at": None} for each in events.messages("t", range(200))]

    assert without_time(first) == without_time(second)


def test_markers_are_no_events_and_differ() -> None:
    first, second = numbers([marker("t"), marker("t")])

    assert first != second
    assert not is_event(first)
    assert is_event(0)


def test_a_send_that_takes_long_makes_the_events_behind_it_late_and_hides_nothing() -> None:
    broker = Loudspeaker(slow_s=0.05)

    began_ns = send_evenly(broker, GameEvents(100), "t", rate=1000, count=100)

    sent = [orjson.loads(message.value) for batch in broker.batches for message in batch]
    assert [began_ns + number * 1_000_000 for number in range(100)] == [event["due_ns"] for event in sent]
    assert len(broker.batches[1]) >= 49


def test_reading_to_the_end_stops_when_everything_has_come_and_counts_what_comes_twice() -> None:
    broker = Loudspeaker(doubled=3)
    events = GameEvents(100).messages("t", range(5))

    found = drain(broker, "t", "g", set(range(5)), silence_s=60.0, when_heard=events)

    assert Counter({0: 1, 1: 1, 2: 1, 3: 2, 4: 1}) == found.times
    assert set(range(5)) == found.arrived_s.keys()


def test_reading_to_the_end_stops_at_the_marker_and_silence_when_something_is_lost() -> None:
    broker = Loudspeaker()
    broker.send(GameEvents(100).messages("t", range(5)))

    found = drain(broker, "t", "g", set(range(5)), silence_s=0.05)

    assert not found.times


def test_events_that_a_dead_reader_only_held_are_lost_unless_they_come_again() -> None:
    dead = Received(first_ns=0, last_ns=0, acknowledged=[0, 1, 2], held=[3, 4], delays_ns=[])
    other = Drained(times=Counter({2: 1, 4: 1, 5: 2, 7: 1}), arrived_s={2: 13.0, 4: 12.0, 5: 11.0, 7: 11.0})

    judged = judge_reader(8, dead, other, killed_s=10.0)

    # 3 and 6 came to nobody; 2 and 4 came to both, 5 twice to the other one, which had number 4 after 2 seconds.
    assert ReaderDeath(sent=8, lost=2, repeated=3, takeover_s=2.0) == judged


def test_a_reader_whose_events_never_come_again_is_never_taken_over_from() -> None:
    dead = Received(first_ns=0, last_ns=0, acknowledged=[0], held=[1], delays_ns=[])

    judged = judge_reader(3, dead, Drained(times=Counter({2: 1}), arrived_s={2: 5.0}), killed_s=1.0)

    assert ReaderDeath(sent=3, lost=1, repeated=0, takeover_s=None) == judged


def measured(name: Name, *, in_per_s: float, kept: int) -> Measured:
    contender = Contender(
        name=name,
        version="1",
        settings="as it comes",
        address="",
        data=Path(),
        make_topic=lambda _topic: None,
        kill=lambda: None,
        start=lambda: None,
    )
    return Measured(
        contender=contender,
        speed=Speed(
            in_per_s=[in_per_s, 1.0, in_per_s * 2],
            out_per_s=[in_per_s] * 3,
            delays_ms=[float(number) for number in range(1, 1000)],
        ),
        kept=Retained(sent=1000, kept=kept, replayed=kept, disk_bytes=200 * kept),
        reader=ReaderDeath(sent=2000, lost=1000 - kept, repeated=7, takeover_s=1.5 if kept else None),
        server=ServerDeath(accepted=3000, lost=1000 - kept, repeated=0),
    )


def test_speeds_are_medians_and_ratios_are_beside_kafka() -> None:
    kafka, other = lines([measured("kafka", in_per_s=1000, kept=1000), measured("redis-pubsub", in_per_s=2500, kept=0)])

    assert (1000, 1, 2000, 1.0) == (kafka.in_per_s, kafka.in_slowest, kafka.in_fastest, kafka.in_ratio)
    assert (2.5, 2.5, 0.0) == (other.in_ratio, other.out_ratio, other.disk_ratio)
    assert (500.0, 990.0) == (kafka.p50_ms, kafka.p99_ms)
    assert (200, 0) == (kafka.disk_bytes_per_event, other.disk_bytes_per_event)


def test_without_kafka_there_are_no_ratios() -> None:
    (line,) = lines([measured("rabbitmq", in_per_s=1000, kept=1000)])

    ratios = {name: value for name, value in line.model_dump().items() if name.endswith("ratio")}
    assert {"in_ratio", "out_ratio", "p50_ratio", "p99_ratio", "disk_ratio"} == ratios.keys()
    assert {None} == set(ratios.values())


def test_the_table_has_a_row_for_each_broker_and_says_of_how_many_events_some_were_lost() -> None:
    columns, (row,) = table(lines([measured("redis-pubsub", in_per_s=1000, kept=0)]))

    told = dict(zip(columns, row, strict=True))
    assert "redis-pubsub" == told["broker"]
    assert "1,000" == told["events/s in"]
    assert "1,000 of 1,000" == told["lost, no reader there"]
    assert "1,000 of 2,000" == told["lost, reader killed"]
    assert "never" == told["taken over after s"]
    assert "1,000 of 3,000" == told["lost, server killed"]
    assert "0 of 1,000" == told["replayed"]


def test_brokers_are_chosen_by_name_in_the_order_of_the_table() -> None:
    assert list(contenders.NAMES) == contenders.named([])
    assert ["kafka", "rabbitmq"] == contenders.named(["rabbitmq", "kafka", "rabbitmq"])


def test_an_unknown_broker_is_one_line_that_names_the_known_ones() -> None:
    with pytest.raises(BadInput, match=r"no broker 'nats'.*kafka, redis-streams, redis-pubsub, rabbitmq"):
        contenders.named(["kafka", "nats"])


@pytest.fixture
def only_kafka_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def opened(name: Name, _folder: Path, _jar_folder: Path) -> Iterator[Contender]:
        if name != "kafka":
            raise EnvironmentNotReady(f"there is no {name} here", fix="Install one")
        yield measured(name, in_per_s=1, kept=1).contender

    monkeypatch.setattr(contenders, "_opened", opened)


@pytest.mark.usefixtures("only_kafka_is_there")
def test_a_missing_server_is_left_out_with_the_reason(tmp_path: Path) -> None:
    with contenders.running(["kafka", "rabbitmq"], tmp_path, tmp_path, lambda _line: None) as (there, missing):
        assert ["kafka"] == [each.name for each in there]
        assert {"rabbitmq": "there is no rabbitmq here. Install one"} == missing


@pytest.mark.usefixtures("only_kafka_is_there")
def test_no_server_at_all_is_an_error_that_says_what_is_missing(tmp_path: Path) -> None:
    with (
        pytest.raises(EnvironmentNotReady, match=r"none of these brokers.*no redis-streams here.*no rabbitmq here"),
        contenders.running(["redis-streams", "rabbitmq"], tmp_path, tmp_path, lambda _line: None),
    ):
        pass


def test_disk_is_counted_in_blocks_and_holes_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "_STILL_S", 0.05)
    (tmp_path / "full").write_bytes(os.urandom(40_000))
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(10_000_000)

    assert 40_000 <= keeping.folder_bytes(tmp_path) < 200_000


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_picture_has_a_panel_for_each_measure(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"brokers{suffix}"
    drawn = panels(lines([measured("kafka", in_per_s=1000, kept=1000)]), rate=1000)

    save_panels(drawn, path)

    if suffix == ".png":
        assert b"\x89PNG\r\n\x1a\n" == path.read_bytes()[:8]
    else:
        texts = [each.text for each in ElementTree.parse(path).iter() if each.tag.endswith("text")]  # noqa: S314 - ours
        assert {panel.title for panel in drawn} < set(texts)


def test_nothing_has_no_bar_and_does_not_upset_the_scale(tmp_path: Path) -> None:
    nothing, _ = bars({"a": 0.0}, "lost")

    assert "█" not in nothing
    save_panels([Panel("Lost", "%", {"a": 0.0, "b": 0.0})], tmp_path / "nothing.png")
    save_panels([Panel("Lost", "%", {"a": 0.0})], tmp_path / "nothing.svg")


@pytest.mark.parametrize("command", ["pipeline", "batching", "brokers"])
@pytest.mark.parametrize(
    ("option", "name", "reason"),
    [
        ("--plot", "a.gif", r"a\.gif is neither"),
        ("--plot", "nowhere/a.svg", "not a file in a folder that exists"),
        ("--output", "nowhere/a.json", "not a file in a folder that exists"),
        ("--output", ".", "not a file in a folder that exists"),
    ],
)
def test_figures_that_could_not_be_kept_are_refused_before_anything_is_measured(
    tmp_path: Path, command: str, option: str, name: str, reason: str
) -> None:
    measured = CliRunner().invoke(app, ["bench", command, option, str(tmp_path / name)])

    assert (measured.exit_code, measured.stdout) == (BadInput.exit_code, "")
    assert re.search(reason, measured.stderr)
