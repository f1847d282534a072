"""Outages and zombies around a running pipeline: nothing is lost or doubled, and no good record is blamed."""

from pathlib import Path

import pytest
import yaml

from penstock.config.project import LocalCluster
from penstock.errors import CheckpointLost, PositionsMoved
from penstock.kafka import cluster as kafka_cluster
from penstock.kafka import topics
from penstock.lab.bench.throwaway_postgres import RunningPostgres

from conftest import Cli, RunningKafka
from support.chains import landed_so_far, make_chain
from support.drivers import is_locked
from support.waiting import until


def test_a_database_killed_in_mid_batch_is_waited_for_and_a_row_it_refuses_is_a_dead_letter(
    kafka: RunningKafka, postgres: RunningPostgres, tmp_path: Path
) -> None:
    chain = make_chain(["postgres"], kafka, postgres, tmp_path)
    database = chain.file.read_text().split("database: ")[1].split()[0]
    with postgres.connect(database) as connection:
        connection.execute(
            "CREATE TABLE landed (n bigint CHECK (n % 1000 <> 13), key text, sha text,"
            " _topic_id text, _partition integer, _offset bigint)"
        )
    chain.journal.send(6000)

    driver = chain.drive()
    driver.reach(lambda: landed_so_far(chain, "postgres") > 1000)
    postgres.kill()
    until(lambda: "waiting: PostgreSQL" in driver.said)
    postgres.start()

    assert 0 == driver.wait(), driver.said
    assert [] == chain.faults(refused=lambda n: n % 1000 == 13)


def test_a_leader_killed_under_a_running_pipeline_costs_time_only(three_nodes: RunningKafka, tmp_path: Path) -> None:
    three_nodes.cluster.up(LocalCluster())
    until(lambda: not kafka_cluster.describe(three_nodes.admin()).under_replicated)
    chain = make_chain(["delta", "kafka"], three_nodes, None, tmp_path, replication=3)
    chain.journal.send(5000)

    driver = chain.drive()
    driver.reach(lambda: landed_so_far(chain, "delta") > 1000)
    leader = topics.describe(three_nodes.admin(), chain.journal.topic).partitions[0].leader
    assert leader is not None
    process = three_nodes.cluster.node(leader).process()
    assert process is not None
    process.kill()
    process.wait(60)
    code = driver.wait()
    three_nodes.cluster.up(LocalCluster())
    until(lambda: not kafka_cluster.describe(three_nodes.admin()).under_replicated)

    assert 0 == code, driver.said
    assert [] == chain.faults()


@pytest.mark.soak
def test_a_broker_restarted_under_a_running_pipeline_costs_time_only(kafka: RunningKafka, tmp_path: Path) -> None:
    chain = make_chain(["json"], kafka, None, tmp_path)
    chain.journal.send(4000)

    driver = chain.drive()
    driver.reach(lambda: landed_so_far(chain, "json") > 500)
    kafka.restart()

    assert 0 == driver.wait(), driver.said
    assert [] == chain.faults()


def test_a_checkpoint_is_rebuilt_at_once_although_a_killed_driver_left_a_transaction_open(
    kafka: RunningKafka, cli: Cli, tmp_path: Path
) -> None:
    chain = make_chain(["kafka"], kafka, None, tmp_path)
    chain.journal.send(1000)
    elsewhere = {"PENSTOCK_BOOTSTRAP_SERVERS": kafka.connection.bootstrap_servers}

    killed = chain.drive(PENSTOCK_CRASH_AT="in_commit:kafka")
    assert -9 == killed.wait(), killed.said
    rebuilt = cli("pipeline", "rebuild", chain.file, home=tmp_path / "other-home", **elsewhere)
    other = chain.drive(tmp_path / "other-home", **elsewhere)

    assert 0 == rebuilt.code, rebuilt.err
    assert 0 == other.wait(), other.said
    assert [] == chain.faults()


def test_a_sink_gets_another_name_at_once_although_a_killed_driver_left_dead_letters_open(
    kafka: RunningKafka, tmp_path: Path
) -> None:
    chain = make_chain(["delta"], kafka, None, tmp_path)
    chain.journal.send(1000)

    killed = chain.drive(PENSTOCK_CRASH_AT="in_commit:dead")
    assert -9 == killed.wait(), killed.said
    document = yaml.safe_load(chain.file.read_text())
    document["sinks"][0]["name"] = "renamed"
    chain.file.write_text(yaml.safe_dump(document))
    following = chain.drive()

    assert 0 == following.wait(), following.said
    assert [] == chain.faults()


def test_a_driver_that_hung_while_another_took_over_elsewhere_writes_nothing_more(
    kafka: RunningKafka, cli: Cli, tmp_path: Path
) -> None:
    chain = make_chain(["delta", "json", "kafka"], kafka, None, tmp_path)
    chain.journal.send(9000)
    elsewhere = {"PENSTOCK_BOOTSTRAP_SERVERS": kafka.connection.bootstrap_servers}

    hung = chain.drive()
    hung.reach(lambda: landed_so_far(chain, "delta") > 1000)
    # One that hangs with a sink's lock keeps the other out, which then says so; here it hangs at any other moment.
    hung.pause()
    while any(is_locked(tmp_path / sink / ".penstock.lock") for sink in ("delta", "json")):
        hung.resume()
        hung.pause()
    other = chain.drive(tmp_path / "other-home", **elsewhere)
    assert CheckpointLost.exit_code == other.wait(), other.said
    assert 0 == cli("pipeline", "rebuild", chain.file, home=tmp_path / "other-home", **elsewhere).code
    other = chain.drive(tmp_path / "other-home", **elsewhere)
    assert 0 == other.wait(), other.said
    hung.resume()

    assert PositionsMoved.exit_code == hung.wait(), hung.said
    assert [] == chain.faults()
