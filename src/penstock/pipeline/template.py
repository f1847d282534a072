"""What `penstock pipeline new` writes: a pipeline that runs, with every choice explained."""

TEMPLATE = """\
# {name}.yaml: from the topic `{topic}` into a Delta table, exactly once.
#   penstock pipeline check {name}.yaml    looks for mistakes without starting anything
#   penstock pipeline run {name}.yaml      runs it here
#   penstock pipeline start {name}.yaml    runs it in the background, restarted after outages

name: {name}

source:
  type: kafka
  topics: [{topic}]        # or pattern: "orders\\\\..*"
  start: earliest          # earliest | latest | 2026-01-31T12:00 | 15m; afterwards positions decide

decode:
  type: json               # json | text | raw
  schema: "id bigint NOT NULL, name string, amount double, at timestamp"
  unknown_fields: ignore   # or dead_letter
  tombstones: dead_letter  # or drop: what a record without a value becomes

steps:                     # each event in, one row out, or none
  - sql: SELECT *, amount > 100 AS large FROM events
  # - python: rules:score  # the function `score` in rules.py beside this file; gets and gives a dictionary
  #   returns: "id bigint, name string, score double"

expect:                    # what must be true of each row
  - {{name: amount is known, that: amount IS NOT NULL, otherwise: dead_letter}}   # or drop, warn, fail

batch: {{max_events: 100000, max_wait: 1s}}

sinks:                     # one read of Kafka feeds them all
  - {{type: delta, path: tables/{name}}}
  # - {{type: json, path: files/{name}, where: large}}
  # - {{type: kafka, topic: {topic}.large, where: large}}
  # - type: postgres
  #   server: {{host: 127.0.0.1, database: app, user: app, password: env:PGPASSWORD}}
  #   table: {table}

speed: stream              # or scheduled: read what is there now, then end

# Failed records go to the topic `{topic}.dead`: penstock dead list
"""


def template(name: str, topic: str) -> str:
    """Fill in the names."""
    return TEMPLATE.format(name=name, topic=topic, table=name.replace("-", "_"))
