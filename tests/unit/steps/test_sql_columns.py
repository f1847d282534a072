import re

import pytest

from penstock.steps.select import Select, mentioned_columns, with_columns_for_stars

# ruff: noqa: S608 - the queries are made up, and nothing runs them


@pytest.mark.parametrize(
    "part", ["a + 1", "1", "upper(a)", "cast(a AS int)", "a::string", "(a)", "arr[0]", "'x'", "a = b"]
)
def test_an_expression_without_a_name_is_refused_with_the_remedy(part: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"'{part}' needs a name: write {part} AS something")):
        Select(f"SELECT {part} FROM events")


def test_an_expression_that_breaks_off_is_not_told_to_take_a_name_as_it_is() -> None:
    with pytest.raises(ValueError, match=re.escape("'a +' is not complete, or needs a name behind it: AS something")):
        Select("SELECT a + FROM events")


@pytest.mark.parametrize("sql", ["SELECT FROM events", "SELECT a,, b FROM events", "SELECT a, FROM events"])
def test_an_expression_that_is_not_there_is_refused(sql: str) -> None:
    with pytest.raises(ValueError, match="an expression is missing"):
        Select(sql)


@pytest.mark.parametrize(
    "part",
    [
        "a AS _b",
        "NULL AS _error",
        "_offset + 1 AS _offset",
        "1 AS `_x`",
        "_unknown",
        "s._x",
        "_ERROR",
        "_offset AS _at",
    ],
)
def test_names_that_belong_to_penstock_cannot_be_given(part: str) -> None:
    with pytest.raises(ValueError, match="names that begin with an underscore belong to Penstock"):
        Select(f"SELECT {part} FROM events")


def test_columns_of_penstock_may_be_named_though_they_come_along_anyway() -> None:
    assert ["_offset", "_key", "a"] == Select("SELECT _offset, events._key, a FROM events").names


@pytest.mark.parametrize("parts", ["a, a", "a, b AS a", "a, A", "events.a, s.a"])
def test_two_columns_cannot_have_one_name(parts: str) -> None:
    with pytest.raises(ValueError, match="twice"):
        Select(f"SELECT {parts} FROM events")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT a AS c FROM events", ["c"]),
        ("SELECT * FROM events", ["a", "b"]),
        ("SELECT *, 1 AS c FROM events", ["a", "b", "c"]),
        ("SELECT 1 AS c, * FROM events", ["c", "a", "b"]),
        ("SELECT events.* FROM events", None),
        ("SELECT * EXCEPT (a) FROM events", None),
    ],
)
def test_the_columns_that_come_out_are_known_unless_a_star_does_more(sql: str, expected: list[str] | None) -> None:
    assert expected == Select(sql).columns(["a", "b", "_offset"])


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a + b.c", {"a", "b"}),
        ("events.a + events.b.c", {"a", "b"}),
        ("'a' || `b c`", {"b c"}),
        ("f(x -> x.y + a)", {"a"}),
        ("1", set()),
        ("*", set()),
        ("events.* EXCEPT (a)", {"a"}),
        ("no sql at all (", set()),
    ],
)
def test_the_columns_that_are_mentioned_are_found(expression: str, expected: set[str]) -> None:
    assert expected == mentioned_columns(expression)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("to_json(struct(*))", "to_json(struct(`id`, `a``b`))"),
        ("f(a * b, *)", "f(a * b, `id`, `a``b`)"),
        ("struct(*, 1, *)", "struct(`id`, `a``b`, 1, `id`, `a``b`)"),
        ("struct(events.*)", "struct(`id`, `a``b`)"),
        ("struct(1, `events`.*, 2)", "struct(1, `id`, `a``b`, 2)"),
        ("struct(* EXCEPT (id))", "struct(`a``b`)"),
        ("struct(events.* EXCEPT (`A``b`), 1)", "struct(`id`, 1)"),
        ("a * (b)", "a * (b)"),
        ("'(*)'", "'(*)'"),
    ],
)
def test_a_star_inside_of_a_function_is_spelt_out_and_a_product_is_not(expression: str, expected: str) -> None:
    assert expected == with_columns_for_stars(expression, ["id", "a`b"])
