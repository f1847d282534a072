"""Values that carry the id of a schema, as a console shows them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.console.decoding import Decoding
from penstock.console.records import content_of
from penstock.schemas.registry import Registry
from penstock.schemas.serializer import Serializer

from support.consoles import settings_of
from support.registry_stub import registry_stub

ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'


def decoding(home: Path, url: str) -> Decoding:
    settings = settings_of(home, "127.0.0.1:1")
    return Decoding(replace(settings, project=settings.project.model_copy(update={"registry": Registry(url=url)})))


def test_avro_is_shown_as_json_with_the_id_of_its_schema(tmp_path: Path) -> None:
    with registry_stub() as stub:
        schema_id = stub.add("orders-value", ORDER)
        file = tmp_path / "order.avsc"
        file.write_text(ORDER)
        framed = Serializer(stub.registry, schema=file).encode("orders", {"id": 7})
        shown = decoding(tmp_path, stub.url).content(framed)

    assert framed is not None
    assert shown is not None
    assert ('{"id":7}', "text", len(framed), schema_id) == (shown.text, shown.encoding, shown.bytes, shown.schema_id)


def test_what_cannot_be_decoded_stays_as_it_is_whether_or_not_the_registry_answers(tmp_path: Path) -> None:
    with registry_stub() as stub:
        reads = decoding(tmp_path, stub.url)
        unknown = reads.content(b"\x00\x00\x00\x00\x63\xffabc")
        plain = reads.content(b'{"id": 1}')
    away = decoding(tmp_path, "http://127.0.0.1:1")
    shown = [away.content(b"\x00\x00\x00\x00\x01\xffabc") for _ in range(100)]

    assert unknown is not None
    assert plain is not None
    assert ("hex", None, '{"id": 1}') == (unknown.encoding, unknown.schema_id, plain.text)
    assert {"hex"} == {each.encoding for each in shown if each is not None}


@pytest.mark.parametrize("value", [b'{"s": "\\ud800"}', b'{"a":' * 600 + b"1" + b"}" * 600])
def test_what_cannot_be_written_as_json_again_is_shown_as_it_came(value: bytes, tmp_path: Path) -> None:
    with registry_stub() as stub:
        schema_id = stub.add("odd-value", {"type": "object"}, "JSON")
        framed = b"\x00" + schema_id.to_bytes(4, "big") + value
        shown = decoding(tmp_path, stub.url).content(framed)

    assert content_of(framed) == shown


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"pattern": "^(a+)+$"}}},
        {
            "definitions": {"p0": {}}
            | {f"p{n}": {"allOf": [{"$ref": f"#/definitions/p{n - 1}"}] * 2} for n in range(1, 60)},
            "$ref": "#/definitions/p59",
        },
        {"$ref": "#"},
    ],
)
def test_a_json_schema_that_takes_years_to_compare_with_keeps_nobody_waiting(schema: Any, tmp_path: Path) -> None:
    value = b'{"a":"' + b"a" * 60 + b'!"}'
    with registry_stub() as stub:
        schema_id = stub.add("slow-value", schema, "JSON")
        shown = decoding(tmp_path, stub.url).content(b"\x00" + schema_id.to_bytes(4, "big") + value)

    assert shown is not None
    assert (value.decode(), schema_id) == (shown.text, shown.schema_id)
