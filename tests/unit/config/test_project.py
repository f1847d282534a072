import re
from pathlib import Path

import pytest

from penstock.config import project
from penstock.config.project import ExternalCluster, LineageReports, LocalCluster, Project
from penstock.errors import BadInput
from penstock.kafka.connection import Connection
from penstock.kafka.security import Mtls, Scram
from penstock.kafka.topic_spec import TopicSpec
from penstock.quantities import UNLIMITED
from penstock.secret import Secret


def load(folder: Path, text: str) -> Project:
    file = folder / project.FILE_NAME
    file.write_text(text)
    return project.load(file)


def test_the_template_loads_as_it_is_written(tmp_path: Path) -> None:
    expected = Project(
        cluster=LocalCluster(nodes=1, port=9092, secure=False, heap=512_000_000),
        topics={"orders": TopicSpec(partitions=3, retention=604_800_000)},
    )

    assert expected == load(tmp_path, project.TEMPLATE)


def test_the_templates_commented_settings_load_too(tmp_path: Path) -> None:
    head, _, topics = project.TEMPLATE.partition("topics:")
    external = head[head.index("# cluster:") :].replace("\n# ", "\n").removeprefix("# ")
    text = external + "topics:" + re.sub("(?m)^    # ", "    ", topics)

    loaded = load(tmp_path, text)

    assert isinstance(loaded.cluster, ExternalCluster)
    assert isinstance(loaded.cluster.security, Scram)
    expected = TopicSpec(
        partitions=3, retention=604_800_000, retention_size=10**9, cleanup="delete", config={"min.insync.replicas": 1}
    )
    assert expected == loaded.topics["orders"]


def test_relative_files_count_from_the_project_files_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)

    loaded = load(
        tmp_path,
        """
cluster:
  type: external
  bootstrap_servers: kafka:9093
  security:
    type: mtls
    ca_file: secrets/ca.pem
    certificate_file: /absolute/client.pem
    key_file: ../client.key
    key_password: file:secrets/key.password
""",
    )

    expected = Mtls(
        ca_file=tmp_path / "secrets/ca.pem",
        certificate_file=Path("/absolute/client.pem"),
        key_file=tmp_path / "../client.key",
        key_password=Secret(f"file:{tmp_path}/secrets/key.password"),
    )
    assert isinstance(loaded.cluster, ExternalCluster)
    assert expected == loaded.cluster.security
    assert expected == loaded.cluster.connection().security


def test_an_external_cluster_gives_its_whole_connection(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        "cluster: {type: external, bootstrap_servers: 'a:1, b:2', client_settings: {client.id: orders}}\n",
    )

    expected = Connection(bootstrap_servers="a:1,b:2", client_settings={"client.id": "orders"})
    assert isinstance(loaded.cluster, ExternalCluster)
    assert expected == loaded.cluster.connection()


def test_a_forbidden_client_setting_in_the_file_is_refused_with_its_line(tmp_path: Path) -> None:
    text = "cluster:\n  type: external\n  bootstrap_servers: a:1\n  client_settings:\n    plugin.library.paths: x.so\n"

    with pytest.raises(BadInput) as caught:
        load(tmp_path, text)

    expected = f"{tmp_path}/penstock.yaml:4:3: cluster.client_settings: 'plugin.library.paths' may not be set here"
    assert expected == caught.value.what


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(TopicSpec(), {}, id="nothing said"),
        pytest.param(TopicSpec(partitions=3, replication=2), {}, id="no setting"),
        pytest.param(TopicSpec(cleanup="delete"), {"cleanup.policy": "delete"}, id="delete"),
        pytest.param(TopicSpec(cleanup="compact"), {"cleanup.policy": "compact"}, id="compact"),
        pytest.param(TopicSpec(cleanup="both"), {"cleanup.policy": "compact,delete"}, id="both"),
        pytest.param(TopicSpec(retention=UNLIMITED), {"retention.ms": "-1"}, id="forever"),
        pytest.param(TopicSpec(retention=0), {"retention.ms": "0"}, id="not at all"),
        pytest.param(TopicSpec(retention_size=10**9), {"retention.bytes": "1000000000"}, id="size"),
        pytest.param(
            TopicSpec(config={"preallocate": True, "segment.bytes": 1048576, "compression.type": "zstd"}),
            {"preallocate": "true", "segment.bytes": "1048576", "compression.type": "zstd"},
            id="Kafka's own names",
        ),
    ],
)
def test_a_topic_is_put_in_kafkas_words(spec: TopicSpec, expected: dict[str, str]) -> None:
    assert expected == spec.kafka_config()


def test_retention_is_read_in_peoples_units(tmp_path: Path) -> None:
    loaded = load(tmp_path, "topics:\n  e: {retention: forever, retention_size: 1GiB}\n")

    assert {"retention.ms": "-1", "retention.bytes": str(2**30)} == loaded.topics["e"].kafka_config()


@pytest.mark.parametrize(
    ("key", "instead"),
    [("retention.ms", "retention"), ("retention.bytes", "retention_size"), ("cleanup.policy", "cleanup")],
)
def test_a_setting_with_a_key_of_its_own_is_refused_under_kafkas_name(tmp_path: Path, key: str, instead: str) -> None:
    with pytest.raises(BadInput) as caught:
        load(tmp_path, f"topics:\n  events:\n    config:\n      {key}: 1\n")

    assert (
        f"{tmp_path}/penstock.yaml:2:3: topics.events: say '{instead}' instead of config '{key}'" == caught.value.what
    )


@pytest.mark.parametrize("written", ["lineage:", "lineage: {}"])
def test_lineage_is_on_as_soon_as_its_key_is_there(tmp_path: Path, written: str) -> None:
    assert LineageReports() == load(tmp_path, f"{written}\n").lineage


def test_further_clusters_have_names_for_an_address_and_files_beside_the_project_file(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        """
clusters:
  staging:
    bootstrap_servers: kafka:9093
    security: {type: scram, username: ann, password: "env:STAGING_PASSWORD", ca_file: ca.pem}
""",
    )
    security = loaded.clusters["staging"].connection().security

    assert isinstance(security, Scram)
    assert (tmp_path / "ca.pem", Secret.parse("env:STAGING_PASSWORD")) == (security.ca_file, security.password)
    assert isinstance(loaded.cluster, LocalCluster)
    for name in ("a b", "../up", "", "x" * 64, "a?b=c"):
        with pytest.raises(BadInput, match="is not a valid name"):
            load(tmp_path, f'clusters: {{"{name}": {{bootstrap_servers: "kafka:9093"}}}}')
