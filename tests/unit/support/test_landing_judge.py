"""The judge of the fault tests must fail on what it is there to find."""

import dataclasses

import pytest

from penstock.kafka.connection import Connection

from support.landing import Journal, Letter, Row, event, expected, judge

TOPIC_ID = "topic"


@pytest.fixture
def journal() -> Journal:
    journal = Journal(Connection(bootstrap_servers="127.0.0.1:1"), "topic")
    for number in range(1000):
        value = event(number, "k")
        journal.acknowledged[number % 3, number // 3] = value[:-4] if number % 100 == 5 else value
    return journal


def landed(journal: Journal) -> tuple[list[Row], list[Letter]]:
    rows, letters = [], []
    for (partition, offset), value in journal.acknowledged.items():
        meant = expected(value)
        if meant is None:
            letters.append(Letter(TOPIC_ID, partition, offset, value))
        else:
            rows.append(Row(TOPIC_ID, partition, offset, *meant))
    return rows, letters


def test_a_sink_that_holds_everything_once_passes(journal: Journal) -> None:
    rows, letters = landed(journal)

    assert [] == judge(journal, TOPIC_ID, rows, letters)
    assert (990, 10) == (len(rows), len(letters))


def test_a_sink_that_drops_one_in_a_thousand_fails(journal: Journal) -> None:
    rows, letters = landed(journal)

    assert 1 == len(judge(journal, TOPIC_ID, rows[1:], letters))


def test_a_sink_that_doubles_fails(journal: Journal) -> None:
    rows, letters = landed(journal)

    assert 1 == len(judge(journal, TOPIC_ID, [*rows, rows[500]], letters))


def test_a_sink_that_swaps_two_rows_fails(journal: Journal) -> None:
    rows, letters = landed(journal)
    first, second = rows[10], rows[20]
    rows[10] = dataclasses.replace(first, n=second.n, sha=second.sha)
    rows[20] = dataclasses.replace(second, n=first.n, sha=first.sha)

    assert 2 == len(judge(journal, TOPIC_ID, rows, letters))


def test_a_sink_that_invents_fails(journal: Journal) -> None:
    rows, letters = landed(journal)

    assert 1 == len(judge(journal, TOPIC_ID, [*rows, Row(TOPIC_ID, 0, 99_999, 1, "x")], letters))


def test_a_row_of_the_topic_that_was_there_before_fails(journal: Journal) -> None:
    rows, letters = landed(journal)

    assert 1 == len(judge(journal, TOPIC_ID, [dataclasses.replace(rows[0], topic_id="old"), *rows[1:]], letters))


@pytest.mark.parametrize("change", ["lost", "doubled", "changed"])
def test_dead_letters_are_judged_as_strictly_as_rows(journal: Journal, change: str) -> None:
    rows, letters = landed(journal)
    found = {
        "lost": letters[1:],
        "doubled": [*letters, letters[0]],
        "changed": [dataclasses.replace(letters[0], value=b"{}"), *letters[1:]],
    }[change]

    assert 1 == len(judge(journal, TOPIC_ID, rows, found))


def test_a_good_event_among_the_dead_letters_fails(journal: Journal) -> None:
    rows, letters = landed(journal)
    good = Letter(TOPIC_ID, rows[0].partition, rows[0].offset, b"{}")

    assert 1 == len(judge(journal, TOPIC_ID, rows[1:], [*letters, good]))
