"""Secrets of services, on a secure cluster: logins, a registry's database, connectors and a captured database."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from penstock.config.local_connection import local_connection
from penstock.config.local_services import password_file
from penstock.config.service_names import SERVICE_NAMES
from penstock.kafka.admin import Admin
from penstock.kafka.reader import read_all
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.private import write_private
from penstock.services import control

from support.canary import CANARY, Scene, canary, made_scene
from support.postgres_driver import ask

FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"


@pytest.fixture
def scene(tmp_path: Path, jar_folder: Path) -> Iterator[Scene]:
    with made_scene(tmp_path, jar_folder) as made:
        try:
            yield made
        finally:
            for name in reversed(SERVICE_NAMES):
                control.stop(made.home, name)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_no_secret_of_a_service_is_where_it_does_not_belong(scene: Scene, logical_postgres: RunningPostgres) -> None:
    shop, schemas = logical_postgres.database("canary_shop"), logical_postgres.database("canary_schemas")
    ask(shop, "CREATE TABLE orders (id bigint PRIMARY KEY)")
    ask(shop, "INSERT INTO orders VALUES (7)")
    given = scene.folder / "given"
    write_private(given / "database.password", logical_postgres.password.encode())
    (given / "lines.txt").write_text("one\n")
    (given / "order.avsc").write_text('"long"')
    written = {"connector.class": FILE_SOURCE, "file": str(given / "lines.txt"), "topic": "lines"}
    (given / "bad.json").write_text(json.dumps({**written, "database.password": canary()}))
    project = {
        "cluster": {"type": "local", "port": 0, "secure": True, "heap": "256MB"},
        "services": {
            "registry": {
                "port": 0,
                "database": {
                    "url": f"postgresql://{schemas.host}:{schemas.port}/{schemas.database}",
                    "username": schemas.user,
                    "password": f"file:{given / 'database.password'}",
                },
            },
            "connect": {"port": 0},
        },
        "connectors": {"lines": {**written, "database.password": "env:CONNECTOR_PASSWORD"}},
    }
    (scene.folder / "project/penstock.yaml").write_text(yaml.safe_dump(project))
    scene.environment["CONNECTOR_PASSWORD"] = connector = canary()

    scene.run("up", "--yes")
    scene.run("schema", "register", "orders-value", given / "order.avsc")
    scene.run("schema", "list", "--json")
    scene.run(
        "schema", "list", fails=True, PENSTOCK_REGISTRY_URL="https://127.0.0.1:1", PENSTOCK_REGISTRY_TOKEN=canary()
    )
    scene.run("connect", "add", "bad", "--file", given / "bad.json", fails=True)
    scene.run("connect", "apply")
    add = ["cdc", "add", "postgres", "shop", "--port", str(shop.port), "--database", shop.database, "--user", shop.user]
    scene.run(*add, "--tables", "public.orders", "--password", "env:WRONG", fails=True, WRONG=canary())
    scene.run(*add, "--tables", "public.orders", "--password", f"file:{given / 'database.password'}")
    for words in (("connect", "list"), ("connect", "show", "lines"), ("connect", "show", "shop"), ("cdc", "status")):
        scene.run(*words, "--json")
    for name in ("connect", "registry"):
        scene.run("logs", name)
    scene.run("status", "--json")
    broker = scene.home / "broker"
    admin = Admin(local_connection(broker))
    messages = {
        topic: [repr((each.key(), each.value(), each.headers())) for each in read_all(admin.connection, topic)]
        for topic in admin.metadata("looking").topics
    }
    login_files = [password_file(scene.home, "registry"), password_file(scene.home, "connect")]
    scene.run("cdc", "remove", "shop", "--yes")
    scene.run("down")
    scene.watch.stop()

    secrets = (CANARY, logical_postgres.password, *(each.read_text().strip() for each in login_files))

    def leaks(text: str) -> bool:
        return any(each in text for each in secrets)

    configured = "".join(messages["connect-configs"])
    assert ("connector-lines" in configured, "connector-shop" in configured) == (True, True)
    assert [] == [said.err for said in scene.said if leaks(said.out + said.err)]
    assert [] == [line.split("\0")[:3] for line in scene.watch.lines if leaks(line)]
    assert {} == {topic: each for topic, found in messages.items() if (each := [one for one in found if leaks(one)])}
    services = scene.home / "services"
    kept = {
        *given.iterdir(),
        *login_files,
        services / "connect" / "login.properties",
        services / "registry" / "config" / "application.properties",
        *(services / "connect" / "secrets").iterdir(),
        *(broker / "secrets/users").iterdir(),
    }
    files = [path for path in scene.folder.rglob("*") if path.is_file() and path not in kept]
    assert [] == [path for path in files if leaks(path.read_bytes().decode("latin-1"))]
    assert [connector] == [each.read_text() for each in (services / "connect" / "secrets").iterdir()]
    # What is unpacked, or made by a server, is in folders that let nobody pass.
    ours = [services, *services.glob("*"), *services.glob("*/*"), *(services / "connect" / "secrets").iterdir()]
    assert [] == [path for path in ours if path.lstat().st_mode & 0o077]
    named = {"CONNECTOR_PASSWORD"}
    held = [{name for name, each in every.items() if leaks(each)} for every in scene.watch.servers.values()]
    assert len(held) > 3, "services were looked at"
    assert [] == [each for each in held if each - named]
