"""On a secure cluster a database is captured, and a snapshot that was interrupted restarts, as on any other."""

import json
from pathlib import Path

from penstock.config.services import ConnectService, Services
from penstock.connect import snapshots
from penstock.connect.cdc import DEBEZIUM_POSTGRES, Capture, Captures
from penstock.connect.client import ConnectClient
from penstock.kafka.reader import read_all
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.services import control
from penstock.services.context import ServiceContext

from conftest import RunningKafka
from support.postgres_driver import ask
from support.shop import shop
from support.waiting import until


def test_a_snapshot_that_is_taken_twice_restarts_on_a_secure_cluster(
    secure_kafka: RunningKafka, jar_folder: Path, logical_postgres: RunningPostgres
) -> None:
    server, admin, home = shop(logical_postgres), secure_kafka.admin(), secure_kafka.home
    ask(server, "INSERT INTO orders (id, part) VALUES (1, 'x')")
    context = ServiceContext(home, jar_folder, secure_kafka.connection, nodes=1, secure=True)
    wanted = Services(connect=ConnectService(port=0, plugins=(DEBEZIUM_POSTGRES,)))
    capture = Capture(name="guarded", server=server, tables=["public.orders"])

    def said(topic: str) -> list[bytes]:
        return [value for each in read_all(admin.connection, topic) if (value := each.value()) is not None]

    def changes() -> list[str]:
        return [json.loads(each)["payload"]["op"] for each in said(capture.topic("public.orders"))]

    try:
        client = ConnectClient(control.LocalServices(context).up(wanted)["connect"])
        captures = Captures(home, client)
        captures.add(capture, admin)
        until(lambda: snapshots.state(admin, "guarded") == "complete")
        client.stop("guarded")
        until(lambda: client.connector("guarded").tasks.endswith("/0"))
        client.reset_offsets("guarded")
        client.resume("guarded")
        until(lambda: said(snapshots.topic_of("guarded")).count(b"begun") == 2)
        until(lambda: snapshots.state(admin, "guarded") == "complete")
        ask(server, "INSERT INTO orders (id, part) VALUES (2, 'x')")
        until(lambda: changes()[-1:] == ["c"])
        captures.remove("guarded")
    finally:
        control.stop(home, "connect")

    assert ["t", "r", "c"] == changes()[-3:]
