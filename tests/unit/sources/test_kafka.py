import pytest

from penstock.errors import Refused
from penstock.kafka import topics
from penstock.kafka.connection import Connection
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sources.kafka import Kafka, KafkaSource

TP = SourcePartition("orders", "id-1", 0)


@pytest.mark.parametrize("topic_id", ["AAAAAAAAAAAAAAAAAAAAAA", "None"])
def test_a_broker_that_gives_topics_no_ids_is_refused(topic_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "identify", lambda *_: {"orders": (topic_id, [0])})
    source = KafkaSource(Kafka(topics=["orders"]), Connection(bootstrap_servers="127.0.0.1:1"))

    with pytest.raises(Refused, match="gives topic 'orders' no id"):
        source.available()
    with pytest.raises(Refused):
        source.topic_ids()


@pytest.mark.parametrize(
    ("skipped", "expected"),
    [
        ([], [(3, 9)]),
        ([(0, 3), (9, 12)], [(3, 9)]),
        ([(3, 4)], [(4, 9)]),
        ([(8, 9)], [(3, 8)]),
        ([(6, 7), (4, 5)], [(3, 4), (5, 6), (7, 9)]),
        ([(0, 5), (4, 6)], [(6, 9)]),
        ([(0, 20)], []),
    ],
)
def test_an_offset_range_is_read_around_what_is_skipped(
    skipped: list[tuple[int, int]], expected: list[tuple[int, int]]
) -> None:
    assert expected == [(part.start, part.end) for part in OffsetRange(TP, 3, 9).less(skipped)]
