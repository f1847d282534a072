"""A real registry behind TLS that asks for a client's certificate: commands, producers and pipelines."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from deltalake import DeltaTable

from penstock.config.local_services import ServiceAddress
from penstock.config.secrets_folder import SecretsFolder
from penstock.errors import BadInput, Refused
from penstock.kafka.producer import Producer
from penstock.pipeline.load import load
from penstock.schemas.registry import Registry
from penstock.schemas.schema import Schema
from penstock.schemas.serializer import Deserializer, Serializer

from conftest import Cli
from support.pipelines import Lab
from support.tls_front import client_files, tls_front

ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
PASSWORD = "password-of-a-client-key"


@pytest.fixture
def files(tmp_path: Path) -> SecretsFolder:
    return SecretsFolder.of(tmp_path / "server")


@pytest.fixture
def url(registry: ServiceAddress, files: SecretsFolder) -> Iterator[str]:
    behind = urlsplit(registry.url)
    with tls_front(files, behind.hostname or "", behind.port or 0) as address:
        yield address


@pytest.fixture
def named(url: str, files: SecretsFolder, tmp_path: Path) -> dict[str, str]:
    """The registry as a file in `tmp_path` names it."""
    client_files(files, tmp_path, PASSWORD)
    (tmp_path / "ca.pem").write_bytes(files.ca_pem.read_bytes())
    (tmp_path / "key.password").write_text(PASSWORD + "\n")
    (tmp_path / "key.password").chmod(0o600)
    return {
        "url": url,
        "ca_file": "ca.pem",
        "certificate_file": "client.pem",
        "key_file": "client.key",
        "key_password": "file:key.password",
    }


def test_commands_get_in_by_the_environment_and_by_the_project_file(
    named: dict[str, str], cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "order.avsc").write_text(ORDER)
    login = {
        f"PENSTOCK_REGISTRY_{name.upper()}": PASSWORD if name == "key_password" else value
        for name, value in named.items()
    }
    registered = cli("schema", "register", "mutual-value", "order.avsc", "--json", **login)
    (tmp_path / "penstock.yaml").write_text(json.dumps({"registry": named}))
    shown = cli("schema", "show", "mutual-value", "--json")
    (tmp_path / "penstock.yaml").unlink()
    without = {name: value for name, value in login.items() if "KEY" not in name and "CERTIFICATE" not in name}
    stranger = cli("schema", "show", "mutual-value", **without)
    wrong = cli("schema", "show", "mutual-value", **{**login, "PENSTOCK_REGISTRY_KEY_PASSWORD": "wrong"})

    assert registered.json["id"] == shown.json["id"]
    assert (5, 2) == (stranger.code, wrong.code)
    assert "do not agree on TLS" in stranger.err
    assert "the password does not open the private key" in wrong.err
    assert [1, 1] == [len(each.err.splitlines()) for each in (stranger, wrong)]


def test_a_producer_and_a_pipeline_get_in_and_nothing_is_lost_without_the_certificate(
    named: dict[str, str], lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = lab.kafka.topic("mutual", partitions=1)
    monkeypatch.chdir(tmp_path)
    registry = Registry.model_validate(named)
    with Producer(lab.connection, schema=Serializer(registry, Schema(text=ORDER))) as producer:
        producer.send_many(topic, [{"value": {"id": number}} for number in range(5)])
    unknown = Registry.model_validate({"url": named["url"], "ca_file": named["ca_file"]})
    with pytest.raises(Refused, match="do not agree on TLS"), Producer(lab.connection) as producer:
        producer.send(topic, Serializer(unknown, Schema(text=ORDER)).encode(topic, {"id": 5}))
    file = tmp_path / "mutual.yaml"

    def run(decode: dict[str, Any]) -> None:
        file.write_text(json.dumps(lab.document(topic, decode={"type": "avro", "registry": decode})))
        lab.run(load(file))

    with pytest.raises(Refused, match="do not agree on TLS"):
        run({"url": named["url"], "ca_file": named["ca_file"]})
    with pytest.raises(BadInput, match="the certificates for"):
        run({**named, "ca_file": "nowhere.pem"})
    run(named)

    rows = DeltaTable(str(lab.table)).to_pyarrow_table(columns=["id"]).column("id").to_pylist()
    assert list(range(5)) == sorted(rows)
    assert [] == lab.letters(topic)
    assert registry.key_password is not None
    assert PASSWORD not in repr(registry)
    encoded = Serializer(registry, Schema(text=ORDER)).encode(topic, {"id": 1})
    assert encoded is not None
    assert {"id": 1} == Deserializer(registry).decode(encoded).value
