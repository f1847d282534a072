"""A pipeline on a secure broker: as a user with no more rights than it needs, and its password nowhere to be seen."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from penstock.config.secrets_folder import SecretsFolder
from penstock.driver.paths import PipelinePaths
from penstock.driver.realtime import RealtimeRunner
from penstock.errors import Refused
from penstock.kafka import acls, topics, users
from penstock.kafka.connection import Connection
from penstock.kafka.reader import read_all
from penstock.kafka.security import Scram
from penstock.kafka.topic_spec import TopicSpec
from penstock.private import write_private
from penstock.secret import Secret

from conftest import RunningKafka
from support.files import contents_under
from support.pipelines import Lab, record_errors
from support.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CANARY = "canary-7f3a-password"


@pytest.fixture
def secure(secure_kafka: RunningKafka, spark: "SparkSession", tmp_path: Path) -> Lab:
    return Lab(secure_kafka, spark, tmp_path)


def user(lab: Lab, name: str, tmp_path_factory: pytest.TempPathFactory) -> Connection:
    """Make a user without any rights; its password lies outside of the test's folder."""
    users.put(lab.kafka.admin(), name, CANARY)
    file = tmp_path_factory.mktemp("password") / "password"
    write_private(file, CANARY.encode())
    ca = SecretsFolder.of(lab.kafka.cluster.folder).ca_pem
    security = Scram(username=name, password=Secret.parse(f"file:{file}"), ca_file=ca)
    return Connection(bootstrap_servers=lab.connection.bootstrap_servers, security=security)


def grant(lab: Lab, name: str, topic: str, out: str) -> None:
    """Return what a pipeline needs: its topics, its groups, its transactional ids; the dead-letter topic is there."""
    group = f"penstock.{topic}"
    wanted = acls.consumer_acls(name, [topic, f"{topic}.dead"], [f"{group}*"])
    wanted += acls.producer_acls(name, [f"{topic}.dead", out], [f"{group}*"])
    acls.allow(lab.kafka.admin(), wanted)


def test_a_user_with_the_least_rights_lands_events_and_its_password_is_nowhere(
    secure: Lab, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql.classic.dataframe import DataFrame

    topic, out = secure.kafka.topic("guarded", partitions=2), secure.kafka.topic("guarded-out")
    connection = user(secure, f"user-{topic}", tmp_path_factory)
    sinks = [{"type": "delta", "path": str(secure.table)}, {"type": "kafka", "topic": out}]
    sql = [{"sql": "SELECT *, 1 / id AS share FROM events"}]
    spec = secure.spec(topic, sinks=sinks, steps=sql, sql_engine="spark")  # so that there is a plan to look at
    secure.send_ids(topic, range(5))
    secure.send(topic, b"poison", partition=1)
    secure.send(out, b"of somebody else: this user may write here, and not read")
    topics.create(secure.kafka.admin(), f"{topic}.dead", TopicSpec(partitions=2, retention="forever"))
    grant(secure, f"user-{topic}", topic, out)
    plans: list[str] = []
    lines: list[str] = []
    collect = DataFrame.collect

    def spy(frame: Any) -> Any:
        plans.append(frame._jdf.queryExecution().toString())
        lines.extend(" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))
        return collect(frame)

    monkeypatch.setattr(DataFrame, "collect", spy)
    secure.run(spec, connection=connection)

    assert [1, 2, 3, 4] == secure.ids()
    assert [(0, "sql", "SqlFailed"), (0, "decode", "Malformed")] == record_errors(secure.letters(topic))
    assert plans
    assert [] == [plan for plan in plans if CANARY in plan]
    assert [] == [line for line in lines if CANARY in line]
    options = secure.spark.sparkContext.getConf().get("spark.driver.extraJavaOptions") or ""
    spark_folder = Path(options.partition("configurationFile=")[2].partition(" ")[0]).parent
    assert (spark_folder / "spark.log").exists()
    found = [
        path
        for path, text in contents_under(spark_folder, secure.home(topic).folder, secure.folder)
        if CANARY.encode() in text
    ]
    assert [] == found
    settings = secure.spark.sparkContext.getConf().getAll()
    assert [] == [name for name, value in settings if CANARY in value]


def test_a_user_who_may_not_read_the_topic_is_refused_by_name(
    secure: Lab, tmp_path_factory: pytest.TempPathFactory
) -> None:
    topic = secure.kafka.topic("forbidden")
    connection = user(secure, f"user-{topic}", tmp_path_factory)
    secure.send_ids(topic, range(3))

    with pytest.raises(Refused, match=topic) as refusal:
        secure.run(secure.spec(topic), connection=connection)
    assert CANARY not in str(refusal.value)
    assert not secure.table.exists()


def test_real_time_logs_in_with_a_password_that_no_setting_of_spark_holds(
    secure: Lab, tmp_path_factory: pytest.TempPathFactory
) -> None:
    topic, out = secure.kafka.topic("guarded-now"), secure.kafka.topic("guarded-now-out")
    connection = user(secure, f"user-{topic}", tmp_path_factory)
    topics.create(secure.kafka.admin(), f"{topic}.dead", TopicSpec(partitions=1, retention="forever"))
    grant(secure, f"user-{topic}", topic, out)
    spec = secure.spec(topic, sinks=[{"type": "kafka", "topic": out}], speed="realtime")
    secure.send_ids(topic, range(5))
    home = PipelinePaths(secure.folder / "home")

    with RealtimeRunner(spec, connection, home, lambda: secure.spark) as runner:
        thread = threading.Thread(target=runner.run, args=(lambda _progress: None,))
        thread.start()
        until(lambda: 5 == len(read_all(secure.connection, out)))
        (query,) = secure.spark.streams.active
        plan = query._jsq.explainInternal(True)  # noqa: FBT003 - what `explain` prints
        # What is there now is what a kill would leave behind.
        left = [path for path, content in contents_under(home.folder) if CANARY.encode() in content]
        runner.stopping.set()
        thread.join(240)

    assert not thread.is_alive()
    assert CANARY not in plan
    assert [] == left
