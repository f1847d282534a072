from pathlib import Path

import pytest

from penstock.delivery.checkpoint import Committed
from penstock.delivery.known_topics import KnownTopics
from penstock.errors import FormatNotUnderstood
from penstock.record.positions import SourcePartition

ORDERS = SourcePartition("orders", "one-id", 0)
RETURNS = SourcePartition("returns", "another-id", 3)


def test_what_a_checkpoint_has_read_is_known_without_it(tmp_path: Path) -> None:
    KnownTopics(tmp_path).keep(Committed(7, {ORDERS: 5, RETURNS: 0}, {"delta": {ORDERS: 9}}, cluster_id="here"))

    assert Committed(0, {ORDERS: 0, RETURNS: 0}, cluster_id="here") == KnownTopics(tmp_path).load()


def test_a_topic_that_was_let_go_of_is_forgotten(tmp_path: Path) -> None:
    known = KnownTopics(tmp_path)
    known.keep(Committed(1, {ORDERS: 0, RETURNS: 0}))
    known.keep(Committed(2, {RETURNS: 0}))

    assert [RETURNS] == list(KnownTopics(tmp_path).load().starts)


def test_nothing_is_written_while_the_same_is_read(tmp_path: Path) -> None:
    KnownTopics(tmp_path).keep(Committed(1, {ORDERS: 0}))
    before = (tmp_path / "topics.json").stat().st_ino
    again = KnownTopics(tmp_path)
    for batch in (2, 3):
        again.keep(Committed(batch, {ORDERS: 0}, {"delta": {ORDERS: batch}}))

    assert before == (tmp_path / "topics.json").stat().st_ino


def test_the_record_is_read_once_however_many_batches_follow(tmp_path: Path) -> None:
    KnownTopics(tmp_path).keep(Committed(1, {ORDERS: 0}))
    again = KnownTopics(tmp_path)
    again.keep(Committed(2, {ORDERS: 0}))
    (tmp_path / "topics.json").unlink()
    again.keep(Committed(3, {ORDERS: 0}))

    assert not (tmp_path / "topics.json").exists()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": 1}', '{"format": 1, "cluster_id": "x", "partitions": [1]}']
)
def test_a_record_that_is_damaged_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "topics.json").write_text(text)

    assert {} == KnownTopics(tmp_path).load().starts


def test_a_record_of_another_version_is_not_taken_for_none(tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_text('{"format": 99}')

    with pytest.raises(FormatNotUnderstood):
        KnownTopics(tmp_path).load()
