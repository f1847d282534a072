"""The judge of the scenarios must fail on what it is there to find."""

import dataclasses
import datetime
import json
from typing import Any

import pytest

from penstock.lab.scenarios.judge import (
    Difference,
    Landed,
    Letter,
    RecordId,
    judge_landing,
    judge_meta,
    judge_metrics,
    judge_podium,
    judge_reasons,
    judge_sending,
    meant,
)
from penstock.lab.simulator.heroes import ROSTER
from penstock.lab.simulator.truth import TrueStanding

AT = "2026-11-15T12:00:00.123456Z"


def event(number: int) -> dict[str, Any]:
    return {
        "at": AT,
        "level": "INFO",
        "logger": "penstock.lab.simulator.game",
        "message": "Attack Completed",
        "game_id": "g",
        "turn": number,
    }


@pytest.fixture
def sent() -> dict[RecordId, bytes]:
    """A thousand records in three partitions; one in a hundred is cut."""
    values = [json.dumps(event(number)).encode() for number in range(1000)]
    return {
        (number % 3, number // 3): value[:-4] if number % 100 == 5 else value for number, value in enumerate(values)
    }


def landed(sent: dict[RecordId, bytes]) -> tuple[list[Landed], list[Letter]]:
    rows, letters = [], []
    for record_id, value in sent.items():
        found = meant(value)
        if found is None:
            letters.append(Letter(record_id, value))
        else:
            rows.append(Landed(record_id, {**found, "damage": None}))
    return rows, letters


def told(differences: list[Difference]) -> dict[str, int]:
    return {each.what: each.count for each in differences}


def test_a_sink_that_holds_everything_once_passes(sent: dict[RecordId, bytes]) -> None:
    rows, letters = landed(sent)

    assert [] == judge_landing("delta", sent, rows, letters)
    assert (990, 10) == (len(rows), len(letters))


def test_a_time_that_a_sink_keeps_as_such_is_the_time_that_was_sent(sent: dict[RecordId, bytes]) -> None:
    rows, letters = landed(sent)
    at = datetime.datetime.fromisoformat(AT)
    kept = [Landed(row.record_id, {**row.event, "at": at}) for row in rows]
    late = [
        Landed(kept[0].record_id, {**kept[0].event, "at": at + datetime.timedelta(microseconds=1)}),
        *kept[1:],
    ]

    assert [] == judge_landing("delta", sent, kept, letters)
    assert {"not what was sent": 1} == told(judge_landing("delta", sent, late, letters))


def test_a_sink_that_drops_one_in_a_thousand_fails_and_says_which(sent: dict[RecordId, bytes]) -> None:
    rows, letters = landed(sent)

    (found,) = judge_landing("delta", sent, rows[1:], letters)

    assert Difference(where="delta", what="lost", count=1, examples=["partition 0 offset 0"]) == found


def test_a_sink_that_doubles_fails(sent: dict[RecordId, bytes]) -> None:
    rows, letters = landed(sent)

    assert {"there more than once": 1} == told(judge_landing("delta", sent, [*rows, rows[500]], letters))


def test_a_sink_that_swaps_two_rows_fails_and_names_the_field(sent: dict[RecordId, bytes]) -> None:
    rows, letters = landed(sent)
    first, second = rows[10], rows[20]
    rows[10] = dataclasses.replace(first, event=second.event)
    rows[20] = dataclasses.replace(second, event=first.event)

    (found,) = judge_landing("delta", sent, rows, letters)

    assert ("not what was sent", 2) == (found.what, found.count)
    assert "turn is 21, was 11" in found.examples[0]


def test_a_sink_that_leaves_out_a_field_fails(sent: dict[RecordId, bytes]) -> None:
    rows, letters = landed(sent)
    rows[0] = Landed(rows[0].record_id, {name: value for name, value in rows[0].event.items() if name != "turn"})

    assert {"not what was sent": 1} == told(judge_landing("delta", sent, rows, letters))


def test_a_sink_that_invents_fails(sent: dict[RecordId, bytes]) -> None:
    rows, letters = landed(sent)

    assert {"never sent": 1} == told(judge_landing("delta", sent, [*rows, Landed((0, 99_999), {})], letters))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("lost", "lost"),
        ("doubled", "there more than once"),
        ("changed", "a dead letter that is not as it was sent"),
        ("landed", "malformed, and landed all the same"),
        ("buried", "a good event among the dead letters"),
    ],
)
def test_dead_letters_are_judged_as_strictly_as_rows(sent: dict[RecordId, bytes], change: str, what: str) -> None:
    rows, letters = landed(sent)
    changed_rows, changed_letters = {
        "lost": (rows, letters[1:]),
        "doubled": (rows, [*letters, letters[0]]),
        "changed": (rows, [dataclasses.replace(letters[0], value=b"{}"), *letters[1:]]),
        "landed": ([*rows, Landed(letters[0].record_id, event(5))], letters[1:]),
        "buried": (rows[1:], [*letters, Letter(rows[0].record_id, sent[rows[0].record_id])]),
    }[change]

    assert {what: 1} == told(judge_landing("delta", sent, changed_rows, changed_letters))


def test_no_more_than_the_first_few_are_shown(sent: dict[RecordId, bytes]) -> None:
    rows, letters = landed(sent)

    (found,) = judge_landing("delta", sent, rows[100:], letters)

    assert (100, 3) == (found.count, len(found.examples))


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"not json",
        b"[1]",
        b"{}",
        json.dumps({**event(1), "game_id": [7]}).encode(),
        json.dumps(event(1)).encode()[:-1],
    ],
)
def test_what_the_simulator_spoils_counts_as_malformed(value: bytes) -> None:
    assert meant(value) is None


def test_a_topic_that_holds_other_than_was_sent_fails(sent: dict[RecordId, bytes]) -> None:
    assert [] == judge_sending(sent, events=990, malformed=10)
    assert 1 == len(judge_sending(sent, events=991, malformed=10))
    assert 2 == len(judge_sending(sent, events=989, malformed=11))


def test_reasons_must_add_up_to_what_was_sent_malformed() -> None:
    assert [] == judge_reasons({"Malformed": 7, "EmptyValue": 3}, malformed=10)
    (found,) = judge_reasons({"Malformed": 7, "EmptyValue": 3}, malformed=11)
    assert ["7 Malformed, 3 EmptyValue"] == found.examples


def truth() -> list[TrueStanding]:
    return [
        TrueStanding(
            game_id=f"game-{game}",
            user=f"USER00{rank}",
            hero_id=ROSTER[rank].hero_id,
            rank=rank,
            damage_dealt=10 * rank,
            damage_received=5 * rank,
            rounds=4,
        )
        for game in range(3)
        for rank in (1, 2, 3)
    ]


def podium() -> list[dict[str, Any]]:
    return [each.model_dump() for each in truth()]


def test_a_podium_in_any_order_that_is_the_truth_passes() -> None:
    assert [] == judge_podium(podium()[::-1], truth())


@pytest.mark.parametrize("column", ["hero_id", "rank", "damage_dealt", "damage_received", "rounds"])
def test_a_podium_that_differs_in_any_column_fails_and_names_it(column: str) -> None:
    rows = podium()
    rows[4][column] = "other"

    (found,) = judge_podium(rows, truth())

    assert found.what == "not the truth"
    assert [f"game-1 USER002: {column} other, truth {podium()[4][column]}"] == found.examples


def test_a_podium_that_lacks_doubles_or_invents_a_row_fails() -> None:
    rows = podium()

    assert {"a row is missing": 1} == told(judge_podium(rows[1:], truth()))
    assert {"there more than once": 1} == told(judge_podium([*rows, rows[0]], truth()))
    assert {"nothing that happened": 1} == told(judge_podium([*rows, {**rows[0], "user": "NOBODY"}], truth()))
    assert {"a row is missing": 9} == told(judge_podium([], truth()))


def test_two_players_who_changed_places_fail() -> None:
    rows = podium()
    rows[0]["rank"], rows[1]["rank"] = rows[1]["rank"], rows[0]["rank"]

    assert {"not the truth": 2} == told(judge_podium(rows, truth()))


def test_heroes_are_compared_with_the_truth_and_the_roster() -> None:
    rows: list[dict[str, Any]] = []
    for each in truth():
        hero = next(hero for hero in ROSTER if hero.hero_id == each.hero_id)
        rows.append({"game_id": each.game_id, "user": each.user, **dataclasses.asdict(hero), "hero": hero.name})
    weaker = [{**rows[0], "attack": 1}, *rows[1:]]

    assert [] == judge_meta(rows, truth())
    assert {"not the truth": 1} == told(judge_meta(weaker, truth()))
    assert {"a row is missing": 1} == told(judge_meta(rows[1:], truth()))


def test_metrics_of_several_days_add_up_to_the_truth_or_say_what_does_not() -> None:
    rows = [
        {
            "hero_id": each.hero_id,
            "games": 1,
            "damage_dealt": each.damage_dealt,
            "damage_received": each.damage_received,
            "wins": int(each.rank == 1),
            "losses": int(each.rank != 1),
        }
        for each in truth()
    ]
    kinder = [{**rows[0], "damage_dealt": 9}, *rows[1:]]

    assert [] == judge_metrics(rows, truth())
    (found,) = judge_metrics(kinder, truth())
    assert [f"{rows[0]['hero_id']}: damage_dealt 29, truth 30"] == found.examples
    assert {"not the truth": 1} == told(judge_metrics(rows[1:], truth()))
