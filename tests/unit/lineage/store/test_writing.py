import random
from pathlib import Path

import pytest

from penstock.lineage.store.address import StoreAddress
from penstock.lineage.store.database import migrate

from support.lineage_store import comparable, differences, stored
from support.lineage_stories import facts_of, random_events, write_in_batches


@pytest.mark.parametrize("seed", range(4))
def test_the_store_holds_what_all_events_say_in_any_order_however_often_and_in_any_batches(
    tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)
    address = StoreAddress(store=str(tmp_path / "lineage.db"))
    migrate(address)
    events = random_events(dice, 120)
    expected = comparable(facts_of(events))
    again = [*events, *dice.sample(events, 40)]
    dice.shuffle(again)
    write_in_batches(address, again, size=(1, 7, 50, 160)[seed])

    assert {} == differences(expected, stored(address))
