"""The store compared with an independent reading of the same events: shuffled, twice, unfinished, some malformed."""

import random
from pathlib import Path

import orjson
import pytest

from penstock.lineage.events import MalformedEvent, parse
from penstock.lineage.query.lists import tags as tags_of
from penstock.lineage.query.search import search
from penstock.lineage.shapes.parameters import SearchParameters, TagsQuery
from penstock.lineage.store.address import StoreAddress
from penstock.lineage.store.database import migrate, open_engine

from support.lineage_content import of_facts
from support.lineage_history import values
from support.lineage_oracle import content
from support.lineage_samples import CUSTOM, event
from support.lineage_spoilt import odd_events
from support.lineage_store import comparable, differences, stored
from support.lineage_stories import facts_of, write_in_batches


def is_event(value: bytes) -> bool:
    try:
        parse(value)
    except MalformedEvent:
        return False
    return True


@pytest.mark.parametrize(("seed", "batch"), [(21, 40), (22, 500)])
def test_a_store_in_sqlite_holds_what_an_independent_reading_finds(tmp_path: Path, seed: int, batch: int) -> None:
    address = StoreAddress(store=str(tmp_path / "lineage.db"))
    migrate(address)
    listed = values(seed, 80)

    write_in_batches(address, [value for value in listed if is_event(value)], batch)

    expected, actual = content(listed), of_facts(stored(address))
    for what, held in expected.items():
        assert held == actual[what], what


def test_whatever_stands_anywhere_in_an_event_the_store_takes_it(tmp_path: Path) -> None:
    address = StoreAddress(store=str(tmp_path / "lineage.db"))
    migrate(address)
    events = odd_events(random.Random(1), 300)
    write_in_batches(address, events, size=37)

    assert {} == differences(comparable(facts_of(events)), stored(address))


def test_names_in_any_alphabet_are_found_in_either_case(tmp_path: Path) -> None:
    address = StoreAddress(store=str(tmp_path / "lineage.db"))
    migrate(address)
    table = {"namespace": "hive://meta", "name": "Склад.ЗАКАЗЫ"}
    tags = {"tags": {"tags": [{"key": "Größe", "value": "ÜBERGROSS"}]}}
    said = event("COMPLETE", "2026-03-14T10:00:00Z", CUSTOM, ("local", "ÖLPREIS"), inputs=[table], job_facets=tags)
    write_in_batches(address, [orjson.dumps(said)], size=1)
    engine = open_engine(address)

    with engine.connect() as connection:
        found = {
            word: [each.name for each in search(connection, SearchParameters(search_query=word)).items]
            for word in ("заказы", "ЗАКАЗЫ", "ölpreis", "GRÖßE")
        }
        tagged = tags_of(connection, TagsQuery(search_query="übergross")).items
    engine.dispose()

    assert {"заказы": [table["name"]], "ЗАКАЗЫ": [table["name"]], "ölpreis": ["ÖLPREIS"], "GRÖßE": ["Größe"]} == found
    assert ["Größe"] == [each.data.name for each in tagged]
