"""Which columns need not pass through the JVM: in doubt, all that the user has."""

import pyarrow as pa
import pytest

from penstock.engine.aside import unasked_columns
from penstock.pipeline.columns import RESERVED
from penstock.steps.sql import Select

SCHEMA = pa.schema(
    [("price", pa.float64()), ("Land", pa.string()), ("note", pa.string()), ("a b", pa.string()), *RESERVED]
)


def waiting(*selects: str, conditions: tuple[str, ...] = ()) -> set[str]:
    found = unasked_columns(SCHEMA, [Select(each) for each in selects], list(conditions))
    return {name for name in found if name not in RESERVED.names}


def test_what_a_star_lets_through_waits_unless_it_is_mentioned() -> None:
    assert {"Land", "note"} == waiting("SELECT *, price * 2 AS twice FROM events")
    assert {"Land", "note"} == waiting("SELECT events.*, price * 2 AS twice FROM events WHERE price > 1")


def test_names_are_mentioned_in_any_case_in_quotes_in_aliases_and_in_conditions() -> None:
    assert {"note"} == waiting("SELECT *, upper(LAND) AS big FROM events WHERE `price` > 1")
    assert {"price"} == waiting("SELECT *, 1 AS Note FROM events", conditions=("land = 'x'",))
    assert {"price", "Land"} == waiting(conditions=("note IS NOT NULL",))


def test_a_column_must_pass_every_select_on_the_way() -> None:
    assert {"note"} == waiting("SELECT *, price AS p FROM events", "SELECT *, land AS l FROM events")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT price FROM events",
        "SELECT *, struct(*) AS whole FROM events",
        "SELECT *, to_json(struct(price, *)) AS whole FROM events",
        "SELECT * EXCEPT (note) FROM events",
        "SELECT *, * FROM events",
    ],
)
def test_none_of_the_users_columns_waits_where_a_star_is_more_than_a_star(sql: str) -> None:
    assert set() == waiting(sql)


def test_columns_of_penstock_wait_unless_they_are_mentioned_and_the_error_never_does() -> None:
    found = unasked_columns(SCHEMA, [Select("SELECT price, _offset AS o FROM events")], ["_KEY IS NOT NULL"])

    assert set(RESERVED.names) - {"_offset", "_key", "_error"} == set(found)
