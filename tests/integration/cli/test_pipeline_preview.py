"""What a pipeline would do, seen without its doing anything."""

import yaml

from penstock.kafka import topics

from conftest import Cli
from support.pipelines import Lab

DECODE = {"type": "json", "schema": "id bigint NOT NULL"}


def test_a_preview_shows_rows_and_failures_of_real_records_and_writes_nothing(lab: Lab, cli: Cli) -> None:
    topic = lab.kafka.topic("previewed", partitions=2)
    file = lab.folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump(lab.document(topic, decode=DECODE)))
    lab.send_ids(topic, range(10))
    lab.send(topic, b"no json")
    before = topics.list_topics(lab.kafka.admin())

    last = cli("pipeline", "preview", file, "--events", "11", "--json", home=lab.kafka.home)
    first = cli("pipeline", "preview", file, "--events", "2", "--from", "earliest", "--json", home=lab.kafka.home)

    assert 0 == last.code, last.err
    (rows,) = last.json["sinks"].values()
    assert list(range(10)) == sorted(each["row"]["id"] for each in rows)
    assert [("decode", "no json")] == [(each["stage"], each["value"]) for each in last.json["dead"]]
    assert 2 == first.json["read"]
    assert before == topics.list_topics(lab.kafka.admin())
    assert not (lab.kafka.home / "pipelines" / topic).exists()
    assert [] == [path for path in lab.folder.iterdir() if path != file]
