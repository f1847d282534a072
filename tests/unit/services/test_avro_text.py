import pytest

from penstock.services.avro_text import plain_avro


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ('{"type": "string"}', '"string"'),
        ('"string"', '"string"'),
        ('[ "null", {"type":"int"} ]', '["null","int"]'),
        ('{"type": "string", "avro.java.string": "String"}', '{"type":"string","avro.java.string":"String"}'),
        ('{"type":"array", "items":{"type":"long"}}', '{"type":"array","items":"long"}'),
        (
            '{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"int"},"default":{"type":"int"}}]}',
            '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":{"type":"int"}}]}',
        ),
    ],
)
def test_equal_schemas_are_written_alike(text: str, plain: str) -> None:
    assert plain == plain_avro(text)


@pytest.mark.parametrize("text", ["no json", '{"type": "double", "default": 1e400}', "[" * 100_000])
def test_what_cannot_be_written_otherwise_stays_as_it_is(text: str) -> None:
    assert text == plain_avro(text)
