"""The podium's logic, against games that the simulator played."""

import json
import random
from typing import Any

import pytest

from penstock.lab.simulator.load import play_out
from penstock.lab.simulator.plan import PlannedGame, plan

from tally import Tally

GAMES = list(plan(10, 30, seed=3))


def played(planned: PlannedGame) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Play a game; give its events, and how the game itself says that it ended."""
    game = play_out(planned, mistakes=0.05)
    events = [{"message": kind.message, **fields} for kind, fields in game.take_events()]
    names = ("user", "hero_id", "rank", "damage_dealt", "damage_received", "rounds")
    standings = [{name: getattr(each, name) for name in names} for each in game.standings()]
    return events, standings[::-1]


@pytest.mark.parametrize("planned", GAMES, ids=lambda planned: planned.game_id[:8])
def test_standings_are_those_of_the_game_in_any_order_and_with_repeats(planned: PlannedGame) -> None:
    events, standings = played(planned)
    dice = random.Random(planned.game_id)
    shuffled = [*events, *dice.sample(events, 5)]
    dice.shuffle(shuffled)
    tally = Tally()
    for event in shuffled:
        tally.add(event)

    assert tally.is_complete
    assert standings == tally.standings()


def test_a_game_is_not_complete_while_any_of_its_events_is_missing() -> None:
    events, _ = played(GAMES[0])
    needed = [event for event in events if event["message"] not in {"Match Started", "Attacked Dead Enemy"}]
    for missing in needed:
        tally = Tally()
        for event in events:
            if event is not missing:
                tally.add(event)

        assert not tally.is_complete, missing


def test_a_tally_that_was_written_down_goes_on_where_it_was() -> None:
    events, standings = played(GAMES[1])
    tally = Tally()
    for event in events:
        tally.add(event)
        tally = Tally(**json.loads(json.dumps(tally.as_dict())))

    assert standings == tally.standings()
