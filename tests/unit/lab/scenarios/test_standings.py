from typing import Any

from penstock.lab.scenarios.standings import Standing, best
from penstock.lab.simulator.truth import TrueStanding


def standing(game: str, user: str, rank: int, damage: int) -> dict[str, Any]:
    numbers = {"rank": rank, "damage_dealt": damage, "damage_received": 1, "rounds": 2}
    return {"game_id": game, "user": user, "hero_id": "batman", **numbers}


def test_players_are_added_up_by_the_podium_and_in_truth_and_the_true_winner_comes_first() -> None:
    rows = [standing("a", "ada", 1, 30), standing("a", "bob", 2, 10), standing("b", "bob", 1, 50)]
    truth = [TrueStanding.model_validate(each) for each in [*rows, standing("b", "ada", 2, 40)]]

    assert [
        Standing(user="ada", wins=1, true_wins=1, damage=30, true_damage=70, games=1, true_games=2),
        Standing(user="bob", wins=1, true_wins=1, damage=60, true_damage=60, games=2, true_games=2),
    ] == best(rows, truth)


def test_only_the_ten_best_are_told() -> None:
    truth = [TrueStanding.model_validate(standing(f"g{number}", f"u{number}", 1, number)) for number in range(12)]

    assert [f"u{number}" for number in range(11, 1, -1)] == [each.user for each in best([], truth)]
