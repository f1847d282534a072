"""`penstock lineage seed` sends its history through Kafka."""

import json

from penstock.kafka.reader import read_all

from conftest import Cli, RunningKafka


def test_a_history_is_in_the_topic_and_the_same_seed_adds_nothing_new(kafka: RunningKafka, cli: Cli) -> None:
    topic = kafka.topic("seed", partitions=3)
    asked = ["lineage", "seed", "--start", "2026-03-01", "--end", "2026-03-03", "--min-runs", "6", "--max-runs", "9"]
    said = [cli(*asked, "--topic", topic, "--json", home=kafka.home) for _ in range(2)]

    found = read_all(kafka.connection, topic)
    values = [message.value() or b"" for message in found]
    assert [0, 0] == [each.code for each in said]
    assert said[0].json == said[1].json
    assert (3, 2 * said[0].json["events"]) == (said[0].json["days"], len(values))
    assert said[0].json["events"] == len(set(values))
    assert said[0].json["runs"] == len({json.loads(value)["run"]["runId"] for value in values})
    assert len({message.key() for message in found}) == len({(each.key(), each.partition()) for each in found})


def test_a_history_that_ends_before_it_begins_is_refused(cli: Cli) -> None:
    said = cli("--bootstrap", "127.0.0.1:1", "lineage", "seed", "--start", "2026-03-02", "--end", "2026-03-01")

    assert (2, 1) == (said.code, len(said.error_lines))
