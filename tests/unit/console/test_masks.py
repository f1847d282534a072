"""What rules hide of records before anybody sees them."""

import os
from pathlib import Path

import pytest

from penstock.config.settings import load
from penstock.console.masks import Masks
from penstock.console.records import Record, content_of
from penstock.console.searches import Wanted
from penstock.console.service import Console
from penstock.errors import BadInput

RULES = """
rules:
  - {topics: 'orders.*', fields: [card, name], headers: [token], key: true}
  - {topics: raw, value: true}
"""


def record(topic: str, value: bytes, key: bytes | None = b"ann") -> Record:
    return Record(
        topic=topic,
        partition=0,
        offset=0,
        timestamp_ms=None,
        key=content_of(key),
        value=content_of(value),
        headers=[("token", content_of(b"t")), ("kind", content_of(b"k"))],
    )


@pytest.fixture
def masks(tmp_path: Path) -> Masks:
    (tmp_path / "masks.yaml").write_text(RULES)
    return Masks(tmp_path / "masks.yaml")


def shown(masks: Masks, topic: str, value: bytes) -> tuple[str, str, list[str]]:
    found = masks.masked(record(topic, value))
    assert found.key is not None
    assert found.value is not None
    return found.key.text, found.value.text, [content.text for _, content in found.headers if content]


@pytest.mark.parametrize("topic", ["orders", "orders.dead"])
def test_fields_are_hidden_at_any_depth_with_headers_and_keys_also_of_dead_letters(topic: str, masks: Masks) -> None:
    value = b'{"id": 1, "card": "4111", "by": [{"name": {"first": "Ann"}, "age": 7}]}'

    assert ("***", '{"id":1,"card":"***","by":[{"name":"***","age":7}]}', ["***", "k"]) == shown(masks, topic, value)


@pytest.mark.parametrize("value", [b"no json 4111", b"\xff4111", b'{"card": "4111", "x": "' + b"y" * 70_000 + b'"}'])
def test_what_cannot_be_masked_part_by_part_is_hidden_whole(value: bytes, masks: Masks) -> None:
    assert "***" == shown(masks, "orders", value)[1]
    assert "***" == shown(masks, "raw", b"{}")[1]


@pytest.mark.parametrize("depth", [255, 1_000])
def test_json_nested_too_deep_to_be_written_again_is_hidden_whole(depth: int, masks: Masks) -> None:
    assert "***" == shown(masks, "orders", b'{"a":' * depth + b'{"card": 1}' + b"}" * depth)[1]
    assert "***" == shown(masks, "orders", b"[" * depth + b"]" * depth)[1]


def letter(dead_topic: str, value: bytes, source: bytes) -> Record:
    headers = [("penstock.topic", content_of(source)), ("penstock.message", content_of(b"no number: 4111"))]
    return record(dead_topic, value).model_copy(update={"headers": headers})


@pytest.mark.parametrize(
    ("dead_topic", "source"), [("failed", b"orders"), ("failed", b"orders.dead"), ("raw.dead.dead", b"x")]
)
def test_a_dead_letter_has_the_rules_of_where_it_came_from_and_what_its_error_said_is_hidden(
    dead_topic: str, source: bytes, masks: Masks
) -> None:
    found = masks.masked(letter(dead_topic, b'{"card": "4111"}', source))

    assert "4111" not in found.model_dump_json()
    assert [source.decode(), "***"] == [content.text for _, content in found.headers if content]


def test_letters_of_other_topics_are_shown_as_they_are(masks: Masks) -> None:
    other = letter("failed", b'{"card": "4111"}', b"payments")

    assert other == masks.masked(other)


def test_a_file_of_rules_counts_whatever_its_time(tmp_path: Path) -> None:
    (tmp_path / "masks.yaml").write_text(RULES)
    os.utime(tmp_path / "masks.yaml", (0, 0))

    assert "***" == shown(Masks(tmp_path / "masks.yaml"), "raw", b"{}")[1]


def test_other_topics_are_shown_as_they_are(masks: Masks) -> None:
    assert ("ann", '{"card": 1}', ["t", "k"]) == shown(masks, "payments", b'{"card": 1}')
    assert [True, False] == [masks.applies_to(topic) for topic in ("orders.eu", "payments")]


def test_a_search_does_not_tell_what_is_hidden(masks: Masks) -> None:
    found = masks.masked(record("orders", b'{"id": 1, "card": "4111"}'))
    asked = [
        Wanted(topic="orders", value="4111"),
        Wanted(topic="orders", json_path="card", equals="4111"),
        Wanted(topic="orders", key="ann"),
        Wanted(topic="orders", json_path="id", equals="1"),
    ]

    assert [False, False, False, True] == [each.takes_shown(found) for each in asked]


def test_rules_count_as_soon_as_they_are_written_and_mistakes_hide_everything(tmp_path: Path) -> None:
    masks = Masks(tmp_path / "masks.yaml")
    before = shown(masks, "raw", b"{}")[1]
    (tmp_path / "masks.yaml").write_text(RULES)
    after = shown(masks, "raw", b"{}")[1]
    (tmp_path / "masks.yaml").write_text("rules: [{topics: '('}]")

    assert ("{}", "***") == (before, after)
    with pytest.raises(BadInput, match="not a regular expression"):
        masks.masked(record("raw", b"{}"))


def test_the_audit_and_connects_settings_are_hidden_without_a_rule_and_cannot_be_searched(tmp_path: Path) -> None:
    console = Console(load(home=tmp_path), [])
    topics = ["penstock.console-audit", "connect-configs"]

    for masks in (console.masks, console.own.masks):
        assert ["***", "***"] == [shown(masks, topic, b'{"who": "ann"}')[1] for topic in topics]
        assert all(map(masks.applies_to, topics))
        assert "{}" == shown(masks, "connect-status", b"{}")[1]
