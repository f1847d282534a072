"""The truth file: a finished game is whole or absent."""

from pathlib import Path

import pytest

from penstock.errors import BadInput, NotFound
from penstock.lab.simulator.game import Standing
from penstock.lab.simulator.truth import TruthWriter, read_truth


def game(game_id: str, size: int) -> list[Standing]:
    return [Standing(game_id, f"USER{rank:03d}", f"H{rank:03d}", rank, 10, 20, 7) for rank in range(size, 0, -1)]


def games_in(path: Path) -> list[tuple[str, int]]:
    return [(each.game_id, each.rank) for each in read_truth(path)]


def test_what_was_written_is_read_back_with_every_field(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "truth.jsonl"
    with TruthWriter(path) as truth:
        truth.write(game("a", 2))
        truth.write([])

    assert [
        {"game_id": "a", "user": "USER002", "hero_id": "H002", "rank": 2},
        {"game_id": "a", "user": "USER001", "hero_id": "H001", "rank": 1},
    ] == [each.model_dump(include={"game_id", "user", "hero_id", "rank"}) for each in read_truth(path)]
    assert {(10, 20, 7)} == {(each.damage_dealt, each.damage_received, each.rounds) for each in read_truth(path)}


def test_wherever_the_file_is_cut_every_game_in_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "truth.jsonl"
    with TruthWriter(path) as truth:
        truth.write(game("a", 2))
        truth.write(game("b", 6))
        truth.write(game("c", 3))
    content = path.read_bytes()
    whole = {
        "a": [("a", rank) for rank in (2, 1)],
        "b": [("b", rank) for rank in range(6, 0, -1)],
        "c": [("c", rank) for rank in (3, 2, 1)],
    }
    seen = set()
    for length in range(len(content) + 1):
        path.write_bytes(content[:length])
        found = games_in(path)
        seen.add(len(found))
        assert found in ([], whole["a"], whole["a"] + whole["b"], whole["a"] + whole["b"] + whole["c"])

    assert {0, 2, 8, 11} == seen


def test_the_next_writer_takes_out_a_game_that_was_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "truth.jsonl"
    with TruthWriter(path) as truth:
        truth.write(game("a", 2))
        truth.write(game("b", 3))
    path.write_bytes(path.read_bytes()[:-10])
    with TruthWriter(path) as truth:
        truth.write(game("c", 2))

    assert [("a", 2), ("a", 1), ("c", 2), ("c", 1)] == games_in(path)


def test_a_fresh_truth_forgets_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "truth.jsonl"
    for game_id in "ab":
        with TruthWriter(path, fresh=True) as truth:
            truth.write(game(game_id, 2))

    assert [("b", 2), ("b", 1)] == games_in(path)


def test_a_file_that_is_missing_or_is_no_truth_is_reported_in_one_line(tmp_path: Path) -> None:
    odd = tmp_path / "odd.jsonl"
    odd.write_text('{"rank": "x"}\n{"rank":1,"user":3}\n')

    with pytest.raises(NotFound, match="there is no truth file"):
        read_truth(tmp_path / "none.jsonl")
    with pytest.raises(BadInput, match=r"line 1 of .* is not a standing"):
        read_truth(odd)
