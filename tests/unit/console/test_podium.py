"""The newest games of the truth beside the table that pipelines land."""

from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from penstock.console.podium import newest_truth

from support.consoles import open_console

UNREACHABLE = "127.0.0.1:1"


def standing(game: str, user: str, rank: int, damage: int = 7) -> dict[str, Any]:
    numbers = {"rank": rank, "damage_dealt": damage, "damage_received": 3, "rounds": 4}
    return {"game_id": game, "user": user, "hero_id": "batman", **numbers}


def written(path: Path, *standings: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(orjson.dumps(each, option=orjson.OPT_APPEND_NEWLINE) for each in standings))
    return path


def test_each_player_of_the_newest_games_is_compared_in_every_column(tmp_path: Path) -> None:
    home, games = tmp_path / ".penstock", [standing("one", "bob", 2), standing("one", "ada", 1)]
    games += [
        standing("two", "cy", 2),
        standing("two", "ada", 1),
        standing("three", "bob", 2),
        standing("three", "cy", 1),
    ]
    written(home / "superhero" / "truth.jsonl", *games)
    landed = [*games[:2], games[2], {**games[3], "damage_received": 4}]
    write_deltalake(tmp_path / "tables" / "game_podium", pa.Table.from_pylist(landed))

    found = open_console(home, UNREACHABLE)("GET", "/lab/podium", games=2).json()
    told = [(each["game_id"], each["user"], each["true_rank"], each["rank"], each["state"]) for each in found["rows"]]

    assert "tables/game_podium" == found["table"]
    assert [
        ("three", "cy", 1, None, "not there yet"),
        ("three", "bob", 2, None, "not there yet"),
        ("two", "ada", 1, 1, "differs"),
        ("two", "cy", 2, 2, "same"),
    ] == told


def test_without_games_and_tables_there_is_nothing_to_compare(tmp_path: Path) -> None:
    assert {"table": None, "rows": []} == open_console(tmp_path, UNREACHABLE)("GET", "/lab/podium").json()


@pytest.mark.parametrize("cut", [0, 1, 300_000])
def test_of_a_long_file_only_whole_games_at_its_end_are_told(cut: int, tmp_path: Path) -> None:
    games = [(standing(f"game-{number}", "bob", 2), standing(f"game-{number}", "ada", 1)) for number in range(3000)]
    path = written(tmp_path / "truth.jsonl", *(each for game in games for each in game))
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - cut)
    found = newest_truth([path], 5)
    last = int(list(found)[-1].removeprefix("game-"))

    assert [f"game-{number}" for number in range(last - 4, last + 1)] == list(found)
    assert all([2, 1] == [each["rank"] for each in game] for game in found.values())
    assert (cut == 0) == (last == 2999)
