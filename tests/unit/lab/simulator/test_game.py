"""One game: seats, turns, blows, falls, ranks."""

import logging
from collections import Counter

import orjson
import pytest

from penstock.errors import BadInput, Conflict, NotFound
from penstock.lab.simulator.game import Game
from penstock.lab.simulator.heroes import ROSTER

GAME_ID = "8f14e45f-ceea-467f-a0e6-3c1d2d1d8c11"


def started(*users: str) -> Game:
    game = Game(GAME_ID, len(users))
    for user in users:
        game.join(user)
    return game


def told(game: Game) -> list[str]:
    return [kind.message for kind, _ in game.take_events()]


def fell(game: Game, victim: str) -> None:
    """Let everybody else strike the victim until it is dead; the victim passes."""
    while victim in game.alive:
        user = game.users[game.seat]
        if user == victim:
            game.pass_turn(user)
        else:
            game.attack(user, victim)


def test_the_roster_has_at_least_200_heroes_with_names_of_their_own_who_can_all_be_hurt_and_can_all_hurt() -> None:
    assert len(ROSTER) >= 200
    assert len(ROSTER) == len({hero.name for hero in ROSTER}) == len({hero.hero_id for hero in ROSTER})
    assert {(True, True)} == {(5 <= hero.attack <= 30, 60 <= hero.health <= 150) for hero in ROSTER}


def test_the_match_starts_when_the_last_player_joins_and_everybody_gets_another_hero() -> None:
    game = Game(GAME_ID, 3)
    game.join("A")
    game.join("B")
    before = told(game)
    game.join("C")
    events = game.take_events()

    assert [] == before
    assert ["Match Started"] + ["Hero Selected"] * 3 == [kind.message for kind, _ in events]
    assert {"game_id": GAME_ID, "players": 3} == events[0][1]
    assert [0, 1, 2] == [fields["seat"] for _, fields in events[1:]]
    assert {"A", "B", "C"} == {fields["user"] for _, fields in events[1:]}
    assert 3 == len({fields["hero_id"] for _, fields in events[1:]})


def test_seats_and_heroes_do_not_depend_on_who_came_first() -> None:
    one, other = started("A", "B", "C", "D"), started("D", "B", "A", "C")

    assert (one.users, one.heroes) == (other.users, other.heroes)


def test_a_user_joins_once_and_a_full_game_takes_nobody() -> None:
    game = Game(GAME_ID, 2)
    game.join("A")
    with pytest.raises(Conflict, match="already"):
        game.join("A")
    game.join("B")

    with pytest.raises(Conflict, match="full"):
        game.join("C")


@pytest.mark.parametrize("size", [-1, 0, 1, 7])
def test_a_game_has_two_to_six_players(size: int) -> None:
    with pytest.raises(BadInput, match="2 to 6"):
        Game(GAME_ID, size)


def test_turns_go_by_seat_and_a_round_is_over_when_everybody_had_one() -> None:
    game = started("A", "B", "C")
    order = []
    for _ in range(7):
        order.append((game.turn, game.round, game.users[game.seat]))
        game.pass_turn(game.users[game.seat])

    first, second, third = game.users
    assert [
        (1, 1, first),
        (2, 1, second),
        (3, 1, third),
        (4, 2, first),
        (5, 2, second),
        (6, 2, third),
        (7, 3, first),
    ] == order


def test_a_blow_takes_off_about_the_attack_and_the_turn_passes_on() -> None:
    game = started("A", "B")
    user, enemy = game.users
    before = game.health[1]
    game.take_events()
    damage = game.attack(user, enemy)
    ((kind, fields),) = game.take_events()

    assert 0.74 * game.heroes[0].attack - 1 <= damage <= 1.25 * game.heroes[0].attack
    assert "Attack Completed" == kind.message
    assert {
        "game_id": GAME_ID,
        "turn": 1,
        "round": 1,
        "user": user,
        "hero_id": game.heroes[0].hero_id,
        "enemy": enemy,
        "enemy_hero_id": game.heroes[1].hero_id,
        "damage": damage,
        "health_before": before,
        "health_after": before - damage,
    } == fields
    assert game.is_turn_of(enemy)


def test_who_falls_loses_its_turns_and_ranks_count_down_from_the_number_of_players() -> None:
    game = started("A", "B", "C", "D")
    first, second, third, last = game.users[2], game.users[0], game.users[3], game.users[1]
    fell(game, first)
    after_first = [game.users[game.seat]]
    for _ in range(3):
        game.pass_turn(game.users[game.seat])
        after_first.append(game.users[game.seat])
    fell(game, second)
    fell(game, third)

    assert first not in after_first
    assert [(first, 4), (second, 3), (third, 2), (last, 1)] == [(each.user, each.rank) for each in game.standings()]
    assert "ended" == game.status


def test_damage_dealt_and_received_add_up_to_the_same_because_only_what_was_left_can_be_taken() -> None:
    game = started("A", "B", "C")
    for victim in game.users[:2]:
        fell(game, victim)
    attacks = [fields for kind, fields in game.take_events() if kind.message == "Attack Completed"]
    dealt: Counter[str] = Counter()
    received: Counter[str] = Counter()
    for each in attacks:
        dealt[each["user"]] += each["damage"]
        received[each["enemy"]] += each["damage"]

    assert [each["health_before"] - each["health_after"] for each in attacks] == [each["damage"] for each in attacks]
    assert {each.user: (each.damage_dealt, each.damage_received) for each in game.standings()} == {
        user: (dealt[user], received[user]) for user in game.users
    }
    assert dealt.total() == received.total()
    assert {game.round} == {each.rounds for each in game.standings()}


def test_the_end_is_reported_once_with_winner_rounds_and_turns() -> None:
    game = started("A", "B")
    fell(game, game.users[1])
    ended = [fields for kind, fields in game.take_events() if kind.message == "Match Ended"]

    assert [
        {
            "game_id": GAME_ID,
            "players": 2,
            "winner": game.users[0],
            "winner_hero_id": game.heroes[0].hero_id,
            "rounds": game.round,
            "turns": game.turn,
        }
    ] == ended
    with pytest.raises(Conflict, match="over"):
        game.attack(game.users[0], game.users[1])


def test_a_blow_at_a_dead_enemy_is_an_error_event_and_the_turn_goes_on() -> None:
    game = started("A", "B", "C")
    victim = game.users[2]
    fell(game, victim)
    game.take_events()
    user, turn = game.users[game.seat], game.turn
    damage = game.attack(user, victim)
    ((kind, fields),) = game.take_events()

    assert 0 == damage
    assert ("Attacked Dead Enemy", logging.ERROR) == (kind.message, kind.level)
    assert {"game_id": GAME_ID, "turn": turn, "round": game.round, "user": user, "enemy": victim} == fields
    assert (user, turn) == (game.users[game.seat], game.turn)


def test_a_refused_action_changes_nothing() -> None:
    game = started("A", "B", "C")
    game.take_events()
    state = game.state()
    user, other = game.users[0], game.users[1]

    with pytest.raises(Conflict, match="not your turn"):
        game.attack(other, user)
    with pytest.raises(Conflict, match="not your turn"):
        game.pass_turn(other)
    with pytest.raises(BadInput, match="yourself"):
        game.attack(user, user)
    with pytest.raises(NotFound, match="'X' is not in this game"):
        game.attack(user, "X")
    with pytest.raises(NotFound, match="'X' is not in this game"):
        game.attack("X", user)
    assert (state, []) == (game.state(), game.take_events())


def test_nobody_acts_before_the_match_starts() -> None:
    game = Game(GAME_ID, 2)
    game.join("A")

    with pytest.raises(Conflict, match="not started"):
        game.attack("A", "B")


def test_a_lobby_that_does_not_fill_times_out_for_good() -> None:
    game = Game(GAME_ID, 2)
    game.join("A")
    game.expire()
    game.expire()
    ((kind, fields),) = game.take_events()

    assert ("Game Timed Out", {"game_id": GAME_ID, "reason": "lobby"}) == (kind.message, fields)
    with pytest.raises(Conflict, match="over"):
        game.join("B")


def test_a_round_in_which_nobody_acts_times_the_game_out_and_there_are_no_standings() -> None:
    game = started("A", "B", "C")
    game.expire()
    game.attack(game.users[1], game.users[0])
    game.take_events()
    for _ in range(3):
        game.expire()
    events = game.take_events()

    assert ["Turn Missed"] * 3 + ["Game Timed Out"] == [kind.message for kind, _ in events]
    assert "players" == events[-1][1]["reason"]
    assert [] == game.standings()


def test_somebody_who_passes_on_purpose_is_there_and_keeps_the_game_alive() -> None:
    game = started("A", "B")
    for _ in range(5):
        game.expire()
        game.pass_turn(game.users[game.seat])

    assert "playing" == game.status


def test_a_game_kept_as_json_goes_on_as_if_nothing_had_happened() -> None:
    kept, straight = started("A", "B", "C"), started("A", "B", "C")
    events: list[list[object]] = [[], []]
    kept.take_events()
    straight.take_events()
    while straight.status == "playing":
        kept = Game.restore(orjson.loads(orjson.dumps(kept.state())))
        for number, game in enumerate((kept, straight)):
            game.attack(game.users[game.seat], next(each for each in game.alive if not game.is_turn_of(each)))
            events[number] += game.take_events()

    assert events[1] == events[0] != []
    assert straight.standings() == kept.standings()
    assert straight.state() == kept.state()
