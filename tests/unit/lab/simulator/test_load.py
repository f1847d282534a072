"""A simulation at full speed: the same games for the same seed, and events from which the truth can be told."""

import datetime
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from penstock.lab.simulator.play import BotOptions
from penstock.lab.simulator.simulation import SimulationOptions, SimulationResult, simulate
from penstock.lab.simulator.truth import read_truth

EXTRAS = {
    "Match Started": {"game_id", "players"},
    "Hero Selected": {"game_id", "user", "seat", "hero_id", "hero", "attack", "health"},
    "Attack Completed": {
        "game_id", "turn", "round", "user", "hero_id", "enemy", "enemy_hero_id", "damage", "health_before",
        "health_after",
    },
    "Turn Missed": {"game_id", "turn", "round", "user"},
    "Attacked Dead Enemy": {"game_id", "turn", "round", "user", "enemy"},
    "Match Ended": {"game_id", "players", "winner", "winner_hero_id", "rounds", "turns"},
}  # fmt: skip
LOBBY = {"Match Started", "Hero Selected"}

Event = dict[str, Any]


def run(place: Path, **options: Any) -> tuple[SimulationResult, list[dict[str, Any]]]:
    records: list[dict[str, Any]] = []
    given = {"players": 10, "games": 200, "speed": "max", "truth": place / "truth.jsonl", **options}
    return simulate(SimulationOptions.model_validate(given), records.extend), records


def usable(value: bytes) -> Event | None:
    """Return the event, if a reader with the contract in hand would take it."""
    try:
        event = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(event, dict) or not {"at", "level", "logger", "message", "game_id"} <= event.keys():
        return None
    return event if isinstance(event["game_id"], str) and isinstance(event["message"], str) else None


def without_time(records: list[dict[str, Any]]) -> list[tuple[str, Event]]:
    events = [(record["key"], orjson.loads(record["value"])) for record in records]
    return [(key, {name: value for name, value in event.items() if name != "at"}) for key, event in events]


def test_every_event_has_the_fields_of_the_contract_and_its_game_as_key(tmp_path: Path) -> None:
    began = datetime.datetime.now(datetime.UTC)
    result, records = run(tmp_path, bots=BotOptions(mistakes=0.1))
    ended = datetime.datetime.now(datetime.UTC)
    events = [orjson.loads(record["value"]) for record in records]
    times = [datetime.datetime.fromisoformat(event["at"]) for event in events]

    assert EXTRAS.keys() == {event["message"] for event in events}
    for record, event in zip(records, events, strict=True):
        message = event["message"]
        assert EXTRAS[message] == event.keys() - {"at", "level", "logger", "message"}
        assert "penstock.lab.simulator." + ("lobby" if message in LOBBY else "game") == event["logger"]
        assert ("ERROR" if message == "Attacked Dead Enemy" else "INFO") == event["level"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", event["at"])
        assert event["game_id"] == record["key"]
    assert began <= times[0] <= times[-1] <= ended
    assert sorted(times) == times
    assert len(records) == result.events == sum(result.by_message.values())
    assert 200 == result.games == result.by_message["Match Ended"]


def test_the_same_seed_is_the_same_games_and_another_seed_is_others(tmp_path: Path) -> None:
    _, one = run(tmp_path / "a", seed=5)
    _, same = run(tmp_path / "b", seed=5)
    _, other = run(tmp_path / "c", seed=6)

    assert without_time(one) == without_time(same)
    assert (tmp_path / "a" / "truth.jsonl").read_bytes() == (tmp_path / "b" / "truth.jsonl").read_bytes()
    assert set() == {record["key"] for record in one} & {record["key"] for record in other}


def test_the_truth_is_what_a_reader_of_the_events_works_out(tmp_path: Path) -> None:
    _, records = run(tmp_path, bots=BotOptions(mistakes=0.05))
    health: dict[tuple[str, str], int] = {}
    heroes, fallen, rounds = {}, defaultdict(list), defaultdict(int)
    dealt: dict[tuple[str, str], int] = defaultdict(int)
    received: dict[tuple[str, str], int] = defaultdict(int)
    for _, event in without_time(records):
        game = event["game_id"]
        match event["message"]:
            case "Hero Selected":
                heroes[game, event["user"]] = event["hero_id"]
                health[game, event["user"]] = event["health"]
            case "Attack Completed":
                assert health[game, event["enemy"]] == event["health_before"] > event["health_after"] >= 0
                health[game, event["enemy"]] = event["health_after"]
                dealt[game, event["user"]] += event["damage"]
                received[game, event["enemy"]] += event["damage"]
                rounds[game] = event["round"]
                if not event["health_after"]:
                    fallen[game].append(event["enemy"])
            case "Match Ended":
                fallen[game].append(event["winner"])
    expected = {
        (game, user, hero, len(fallen[game]) - fallen[game].index(user), dealt[game, user], received[game, user])
        for (game, user), hero in heroes.items()
    }

    truth = read_truth(tmp_path / "truth.jsonl")
    assert expected == {
        (each.game_id, each.user, each.hero_id, each.rank, each.damage_dealt, each.damage_received) for each in truth
    }
    assert len(expected) == len(truth)
    assert dict(rounds) == {each.game_id: each.rounds for each in truth}


def test_games_have_two_to_six_different_players_and_take_about_five_attacks_a_player(tmp_path: Path) -> None:
    result, records = run(tmp_path, games=500)
    players = defaultdict(set)
    for _, event in without_time(records):
        if event["message"] == "Hero Selected":
            players[event["game_id"]].add(event["user"])
    seats = sum(map(len, players.values()))

    assert {2, 3, 4, 5, 6} == {len(users) for users in players.values()}
    assert result.by_message["Hero Selected"] == seats
    assert 4 * seats < result.by_message["Attack Completed"] < 7 * seats
    assert {f"USER{number:03d}" for number in range(10)} == set().union(*players.values())


def test_malformed_records_come_beside_the_events_in_the_share_asked_for_and_none_is_usable(tmp_path: Path) -> None:
    clean, plain = run(tmp_path, games=500)
    result, records = run(tmp_path, games=500, malformed=0.1)
    _, again = run(tmp_path, games=500, malformed=0.1)
    good = [record for record in records if usable(record["value"]) is not None]
    bad = [record for record in records if usable(record["value"]) is None]

    assert without_time(plain) == without_time(good)
    assert clean.by_message == result.by_message
    assert len(bad) == result.malformed == result.records - result.events
    assert 0.08 < len(bad) / len(records) < 0.12
    assert b"" in {record["value"] for record in bad}
    assert {record["key"] for record in bad} <= {record["key"] for record in good}
    assert [len(record["value"]) for record in records] == [len(record["value"]) for record in again]


@pytest.mark.parametrize(
    "wrong", [{"players": 1}, {"players": -5}, {"games": 0}, {"games": -1}, {"malformed": 0.9}, {"speed": "warp"}]
)
def test_counts_and_shares_that_make_no_game_are_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        SimulationOptions.model_validate({"truth": tmp_path / "truth", **wrong})
