"""Slots of captures: asked once at a time, told to be unknown while a database is away, and never with a password."""

import threading
from pathlib import Path

import pytest

from penstock.config.local_services import folder_of
from penstock.connect.cdc import Capture, SlotStatus, slot_status
from penstock.console.slots import Slots
from penstock.secret import Secret
from penstock.sinks.postgres_server import Server

from support.consoles import open_console

PASSWORD = "canary"


@pytest.fixture
def capture(monkeypatch: pytest.MonkeyPatch) -> Capture:
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    password = Secret.parse("env:SHOP_PASSWORD")
    server = Server(host="127.0.0.1", port=1, database="shop", user="ann", password=password)
    return Capture(name="shop", server=server, tables=["public.orders"])


def test_a_database_that_is_away_is_said_to_be_so_without_the_password(capture: Capture) -> None:
    found = slot_status(capture, 1_000)

    assert ("penstock_shop", "unknown", None) == (found.slot, found.state, found.wal_held_bytes)
    assert "PostgreSQL at 127.0.0.1:1 does not answer" in found.problem
    assert PASSWORD not in found.model_dump_json()


def test_who_asks_while_somebody_asks_gets_what_was_known_and_does_not_wait(capture: Capture) -> None:
    begun, may_end = threading.Event(), threading.Event()
    asked = []

    def ask(each: Capture) -> SlotStatus:
        asked.append(each.name)
        begun.set()
        assert may_end.wait(60)
        return SlotStatus(slot=each.slot, state="active", wal_held_bytes=7)

    slots = Slots(ask)
    first: list[SlotStatus] = []
    asking = threading.Thread(target=lambda: first.append(slots.look(capture)))
    asking.start()
    assert begun.wait(60)
    meanwhile = slots.look(capture)
    may_end.set()
    asking.join()
    after = slots.look(capture)

    assert ("unknown", "the database is being asked") == (meanwhile.state, meanwhile.problem)
    assert [7, 7] == [first[0].wal_held_bytes, after.wal_held_bytes]
    assert ["shop"] == asked


def test_a_look_that_fails_keeps_nobody_else_from_asking(capture: Capture) -> None:
    asked = []

    def ask(each: Capture) -> SlotStatus:
        asked.append(each.name)
        if len(asked) == 1:
            raise ValueError("a defect")
        return SlotStatus(slot=each.slot, state="missing")

    slots = Slots(ask)
    with pytest.raises(ValueError, match="a defect"):
        slots.look(capture)

    assert "missing" == slots.look(capture).state


def test_where_there_is_no_connect_there_is_no_slot(tmp_path: Path) -> None:
    said = open_console(tmp_path, "127.0.0.1:1")("GET", "/connectors/shop/slot")

    assert said.status_code == 404
    assert not folder_of(tmp_path, "connect").exists()
