"""What `penstock pipeline new` writes: a pipeline that runs, with every choice explained."""

import yaml

from penstock.pipeline.infer import Sample
from penstock.wording import plural

_HEAD = """\
# yaml-language-server: $schema={schema_file}
# {name}.yaml: from the topic `{topic}` into a Delta table, exactly once.
#   penstock pipeline check {name}.yaml    looks for errors without starting anything
#   penstock pipeline run {name}.yaml      runs it here
#   penstock pipeline start {name}.yaml    runs it in the background, restarted after outages

name: {name}

source:
  type: kafka
  topics: [{topic}]        # or pattern: "orders\\\\..*"
  start: earliest          # earliest | latest | 2026-01-31T12:00 | 15m; afterwards positions decide
"""
_DECODE = """
decode:
  type: json               # json | avro | protobuf | text | raw
  schema: "id bigint NOT NULL, name string, amount double, at timestamp"
  unknown_fields: ignore   # or dead_letter
  tombstones: dead_letter  # or drop: what a record without a value becomes

steps:                     # each event in, one row out, or none
  - sql: SELECT *, amount > 100 AS large FROM events
  # - python: rules:score  # the function `score` in rules.py beside this file; gets and gives a dictionary
  #   returns: "id bigint, name string, score double"

expect:                    # what must be true of each row
  - {{name: amount is known, that: amount IS NOT NULL, otherwise: dead_letter}}   # or drop, warn, fail
"""
_DECODE_INFERRED = """
decode:
  type: json
  # {records} of the topic were looked at; {objects} with these fields:
{columns}
  schema: "{schema}"
  unknown_fields: ignore   # or dead_letter
  tombstones: dead_letter  # or drop: what a record without a value becomes

# steps:                   # each event in, one row out, or none
#   - sql: SELECT * FROM events WHERE {first} IS NOT NULL
# expect:                  # what must be true of each row
#   - {{name: {first} is known, that: {first} IS NOT NULL, otherwise: dead_letter}}
"""
_DECODE_TEXT = """
decode:
  type: text               # none of the {records} looked at is a JSON object; text | raw
"""
_TAIL = """
batch: {{max_events: 100000, max_wait: 1s}}

sinks:                     # one read of Kafka feeds them all
  - {{type: delta, path: tables/{name}}}
  # - {{type: json, path: files/{name}}}
  # - {{type: kafka, topic: {topic}.clean}}        # each sink can have a condition, such as where: amount > 100
  # - type: postgres
  #   server: {{host: 127.0.0.1, database: app, user: app, password: env:PGPASSWORD}}
  #   table: {table}

speed: stream              # or scheduled: read what is there now, then end

# Failed records go to the topic `{topic}.dead`: penstock dead list
"""


def _text(word: str) -> str:
    """Write a word that YAML would take for a number, a time or nothing in quotes."""
    return word if isinstance(yaml.safe_load(word), str) else f'"{word}"'


def template(name: str, topic: str, schema_file: str, sample: Sample | None = None) -> str:
    """Fill in the names, and what a sample of the topic suggests."""
    if sample is None:
        decode = _DECODE
    elif not sample.columns:
        decode = _DECODE_TEXT
    else:
        decode = _DECODE_INFERRED
    columns = sample.columns if sample else []
    width = max((len(each.name) + len(each.type) for each in columns), default=0) + 1
    text = _HEAD + decode + _TAIL
    return text.format(
        name=_text(name),
        topic=_text(topic),
        table=name.replace("-", "_"),
        schema_file=schema_file,
        records=plural(sample.records, "record") if sample else "",
        objects=plural(sample.objects, "JSON object") if sample else "",
        columns="\n".join(f"  #   {f'{each.name} {each.type}':<{width}}  {each.note}" for each in columns),
        schema=", ".join(each.definition for each in columns),
        first=columns[0].name if columns else "",
    )
