"""A log that lost records which were read, and has grown past the position since."""

import shutil
from pathlib import Path

import pytest

from penstock.config.project import LocalCluster
from penstock.delivery import gaps
from penstock.errors import BrokerUnavailable, LogTruncated
from penstock.operate import repair
from penstock.sources.kafka import Kafka, KafkaSource

from conftest import RunningKafka
from support.pipelines import Lab


def exchange_while_down(kafka: RunningKafka, source: Path, target: Path) -> None:
    """Restart the node with a partition's folder copied over another: its log is then as it was at that time.

    To clients this is what the election of a leader without the newest records looks like: leaders are counted on.
    """
    kafka.cluster.down()
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    kafka.start_again()


def test_a_log_that_was_cut_off_and_refilled_past_the_position_is_noticed_and_skipped_by_command_only(
    lab: Lab, tmp_path: Path
) -> None:
    topic = lab.kafka.topic("refilled")
    folder, copy = lab.kafka.cluster.node(1).folder / "data" / f"{topic}-0", tmp_path / "copy"
    spec = lab.spec(topic)
    lab.send_ids(topic, range(4))
    lab.run(spec)
    exchange_while_down(lab.kafka, folder, copy)
    lab.send_ids(topic, range(4, 10))
    lab.run(spec)
    before = lab.ids()
    exchange_while_down(lab.kafka, copy, folder)
    lab.send_ids(topic, range(100, 109))

    with pytest.raises(LogTruncated, match=rf"from offset 4 on, {topic}/0 .* up to 10.*penstock pipeline skip-gap"):
        lab.run(spec)
    untouched = lab.ids()
    with lab.runner(spec) as runner:
        skipped = repair.skip_gaps(runner)
    lab.run(spec)

    assert list(range(10)) == before
    assert before == untouched
    assert [(topic, 0, 4, 10, "log truncated")] == [
        (gap.topic, gap.partition, gap.start, gap.end, gap.reason) for gap in skipped
    ]
    assert skipped == gaps.read(lab.home(topic).folder)
    assert [*range(10), 106, 107, 108] == lab.ids()


def test_a_partition_whose_only_leader_is_dead_is_an_outage_and_does_not_look_cut_off(
    three_nodes: RunningKafka,
) -> None:
    topic = three_nodes.topic("lone", partitions=3, replication=1)
    source = KafkaSource(Kafka(topics=[topic]), three_nodes.connection)
    before = source.available()
    source._admin.timeout_s = 3.0  # nobody is there whom a longer wait would help
    node = three_nodes.cluster.node(2).process()
    assert node is not None
    node.kill()
    node.wait(60)

    try:
        with pytest.raises(BrokerUnavailable, match=f"topic '{topic}'"):
            source.available()
    finally:
        three_nodes.cluster.up(LocalCluster())

    assert [(0, 0)] * 3 == [(each.first, each.end) for each in before]
