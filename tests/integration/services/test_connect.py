"""The worker of Kafka Connect that Penstock starts."""

import socket
from pathlib import Path

import httpx
import pytest

from penstock.config.local_services import ServiceAddress, folder_of
from penstock.connect.client import ConnectClient
from penstock.kafka import topics

from conftest import RunningKafka
from support.waiting import eventually

_PROVIDERS = "org.apache.kafka.common.config.provider"


def login(connect: ServiceAddress) -> tuple[str, str]:
    assert connect.username is not None
    assert connect.password is not None
    return connect.username, connect.password.reveal()


def test_nobody_has_the_worker_read_or_write_files_without_its_login(connect: ServiceAddress, tmp_path: Path) -> None:
    sink = {"connector.class": "FileStreamSink", "file": str(tmp_path / "planted"), "topics": "connect-status"}
    asked = f"{connect.url}/connectors/stranger/config"

    refused = [
        httpx.put(asked, json=sink, timeout=240, **more).status_code
        for more in ({}, {"auth": ("connect", "guessed")}, {"headers": {"Host": "evil.example"}})
    ]

    assert [401, 401, 401] == refused
    assert "stranger" not in httpx.get(f"{connect.url}/connectors", auth=login(connect), timeout=240).json()


def test_no_connector_brings_a_way_of_its_own_to_read_files(connect: ServiceAddress, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("canary")
    client = ConnectClient(connect)
    with socket.create_server(("127.0.0.1", 0)) as kafka_of_a_stranger:
        kafka_of_a_stranger.settimeout(0)
        server = f"127.0.0.1:{kafka_of_a_stranger.getsockname()[1]}"
        client.put(
            "reads-files",
            {
                "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
                "topics": "anything",
                "source.cluster.alias": "a",
                "target.cluster.alias": "b",
                "source.cluster.bootstrap.servers": server,
                "target.cluster.bootstrap.servers": server,
                "source.admin.config.providers": "own",
                "source.admin.config.providers.own.class": f"{_PROVIDERS}.DirectoryConfigProvider",
                "source.admin.client.id": f"${{own:{tmp_path}:key}}",
            },
        )
        try:
            trace = eventually(
                lambda: "".join(each.trace for each in client.connectors() if each.name == "reads-files")
            )
        finally:
            client.remove("reads-files")

        assert "org.apache.kafka.automatic.config.providers" in trace
        with pytest.raises(BlockingIOError):
            kafka_of_a_stranger.accept()


def test_the_worker_has_its_topics_and_the_connectors_that_come_with_kafka(
    kafka: RunningKafka, connect: ServiceAddress
) -> None:
    plugins = httpx.get(f"{connect.url}/connector-plugins", auth=login(connect), timeout=240).json()

    assert {"connect-configs", "connect-offsets", "connect-status"} <= {
        each.topic for each in topics.list_topics(kafka.admin())
    }
    assert {"org.apache.kafka.connect.file.FileStreamSourceConnector"} <= {each["class"] for each in plugins}


def test_the_plugin_itself_says_which_settings_are_secrets(connect: ServiceAddress) -> None:
    client = ConnectClient(connect)
    given = {"database.hostname": "db", "database.password": "env:P", "database.sslpassword": "env:Q"}

    found = client.secret_settings({"connector.class": "io.debezium.connector.postgresql.PostgresConnector", **given})

    assert {"database.password", "database.sslpassword"} == found
    assert set() == client.secret_settings({"connector.class": "NoSuchPlugin", **given})


def test_what_the_worker_logs_is_not_buried_under_requests(kafka: RunningKafka, connect: ServiceAddress) -> None:
    ConnectClient(connect).plugins()
    said = (folder_of(kafka.home, "connect") / "logs" / "service.log").read_text()

    assert "Kafka Connect started" in said
    assert "GET /connector" not in said
