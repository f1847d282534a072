"""JSON Schemas that somebody has registered, and that take years to compare a value with."""

import gc
import json
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.cli import decoded_records
from penstock.errors import BadInput
from penstock.schemas import serializer
from penstock.schemas.serializer import Deserializer
from penstock.schemas.time_limit import at_most
from penstock.schemas.wire import framed

from support.registry_stub import RegistryStub, registry_stub


@pytest.fixture
def stub() -> Iterator[RegistryStub]:
    with registry_stub() as running:
        yield running


PATTERN = {"type": "object", "properties": {"name": {"pattern": "^(a|aa)+$"}}}
VALUE = json.dumps({"name": "a" * 200 + "b"}).encode()


def doubling() -> dict[str, Any]:
    """Return a schema whose few parts each name the next one twice."""
    parts: dict[str, Any] = {"p0": {"type": "object"}}
    for number in range(1, 60):
        part = {"$ref": f"#/definitions/p{number - 1}"}
        parts[f"p{number}"] = {"anyOf": [{"allOf": [part, False]}, {"allOf": [part, False]}]}
    return {"definitions": parts, "$ref": "#/definitions/p59"}


@pytest.mark.parametrize("schema", [PATTERN, doubling()])
def test_a_value_that_takes_years_to_compare_is_given_up_and_later_ones_at_once(
    stub: RegistryStub, schema: dict[str, Any]
) -> None:
    slow = stub.add("slow-value", schema, "JSON")
    good = stub.add("good-value", {"type": "object", "required": ["name"]}, "JSON")
    reader = Deserializer(stub.registry, json_limit_s=0.2)

    with pytest.raises(BadInput, match=r"longer than 0\.2 seconds"):
        reader.decode(framed(slow, VALUE))
    begun = time.thread_time()
    for _ in range(100):
        with pytest.raises(BadInput, match=r"longer than 0\.2 seconds"):
            reader.decode(framed(slow, VALUE))

    assert json.loads(VALUE) == reader.decode(framed(good, VALUE)).value
    assert time.thread_time() - begun < 0.2


def test_a_schema_that_takes_long_to_be_read_is_tried_once(stub: RegistryStub, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def read(*_given: object) -> None:
        tried.append(1)
        while True:
            pass

    monkeypatch.setattr(serializer, "JsonSchema", read)
    schema_id = stub.add("slow-value", PATTERN, "JSON")
    reader = Deserializer(stub.registry, json_limit_s=0.1)
    for _ in range(3):
        with pytest.raises(BadInput, match=r"longer than 0\.1 seconds"):
            reader.decode(framed(schema_id, VALUE))

    assert [1] == tried


def test_a_schema_has_more_time_with_every_byte(stub: RegistryStub) -> None:
    schema_id = stub.add("wide-value", {"type": "array", "items": {"type": "integer", "minimum": 0}}, "JSON")
    values = json.dumps(list(range(2_000))).encode()
    Deserializer(stub.registry).decode(framed(schema_id, values))  # loads what JSON Schemas need, once
    reader = Deserializer(stub.registry, json_limit_s=0.05)
    begun = time.thread_time()
    while time.thread_time() - begun < 0.2:
        reader.decode(framed(schema_id, values))


def test_consume_goes_on_and_says_which_values_it_shows_as_they_are(
    stub: RegistryStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoded_records, "_JSON_LIMIT_S", 0.1)
    records = decoded_records.DecodedRecords(stub.registry)
    value = framed(stub.add("slow-value", PATTERN, "JSON"), VALUE)
    message: Any = _Message(value)
    found = records.described(message, {"offset": 1})

    assert {"offset": 1, "error": "comparing values with their JSON Schema takes longer than 0.1 seconds"} == found
    assert value == records.line(message)
    assert 2 == records.undecoded


def test_what_ends_in_time_is_left_alone_and_nothing_is_raised_later() -> None:
    with at_most(0.05):
        done = True
    begun = time.thread_time()
    while time.thread_time() - begun < 0.2:
        pass
    assert done


def test_the_end_waits_for_callbacks_of_the_garbage_collector_where_it_would_be_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost: list[Any] = []

    def spend(seconds: float) -> None:
        begun = time.thread_time()
        while time.thread_time() - begun < seconds:
            pass

    def slow(_phase: str, _info: dict[str, Any]) -> None:
        spend(0.1)

    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    gc.callbacks.append(slow)
    try:
        with pytest.raises(TimeoutError), at_most(0.03):
            gc.collect()
            spend(2)
    finally:
        gc.callbacks.remove(slow)

    assert [] == lost


def test_in_another_thread_there_is_no_limit() -> None:
    found = []

    def work() -> None:
        with at_most(0.01):
            begun = time.thread_time()
            while time.thread_time() - begun < 0.1:
                pass
            found.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert [1] == found


class _Message:
    """A record of Kafka's, with a value alone."""

    def __init__(self, value: bytes) -> None:
        self._value = value

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return self._value
