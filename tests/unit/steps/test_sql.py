import re

import pytest
import sqlglot
from sqlglot import exp

from penstock.steps.select import Select, condition

# ruff: noqa: S608 - the queries are made up, and nothing runs them


def arguments_of_one_call(texts: list[str]) -> list[exp.Expression]:
    """Put expressions side by side into one line of SQL, as the engine does, and parse it."""
    tree = sqlglot.parse_one(f"SELECT f({', '.join(texts)}) AS x", dialect="spark")
    (call,) = tree.find_all(exp.Anonymous)
    return list(call.expressions)


@pytest.mark.parametrize(
    ("sql", "expressions", "names", "where"),
    [
        pytest.param("SELECT * FROM events", ["*"], [None], None, id="star"),
        pytest.param("select a from EVENTS", ["a"], ["a"], None, id="lower case"),
        pytest.param("SELECT a FROM `events`", ["a"], ["a"], None, id="table in backticks"),
        pytest.param("SELECT a, b AS c FROM events WHERE a > 1", ["a", "b AS c"], ["a", "c"], "a > 1", id="where"),
        pytest.param("SELECT a b FROM events", ["a b"], ["b"], None, id="alias without AS"),
        pytest.param("SELECT events.a, s.x FROM events", ["events.a", "s.x"], ["a", "x"], None, id="qualified"),
        pytest.param("SELECT a\n  AS\n b\nFROM\nevents\nWHERE\n a", ["a\n  AS\n b"], ["b"], "a", id="many lines"),
        pytest.param("SELECT `from`, `a b` FROM events", ["`from`", "`a b`"], ["from", "a b"], None, id="backticks"),
        pytest.param("SELECT 'x, FROM y' AS t FROM events", ["'x, FROM y' AS t"], ["t"], None, id="comma in a string"),
        pytest.param('SELECT "x, FROM y" AS t FROM events', ['"x, FROM y" AS t'], ["t"], None, id="double quotes"),
        pytest.param("SELECT 'it''s, FROM' AS t FROM events", ["'it''s, FROM' AS t"], ["t"], None, id="doubled quote"),
        pytest.param(r"SELECT 'a\'b, FROM' AS t FROM events", [r"'a\'b, FROM' AS t"], ["t"], None, id="escaped quote"),
        pytest.param("SELECT f(a, g(b, c)) AS d FROM events", ["f(a, g(b, c)) AS d"], ["d"], None, id="functions"),
        pytest.param("SELECT a[b, c] AS d FROM events", ["a[b, c] AS d"], ["d"], None, id="square brackets"),
        pytest.param("SELECT '😀, ü' AS e, a FROM events", ["'😀, ü' AS e", "a"], ["e", "a"], None, id="not ASCII"),
        pytest.param("SELECT a FROM events WHERE b = '; FROM x'", ["a"], ["a"], "b = '; FROM x'", id="FROM in where"),
        pytest.param(
            "SELECT extract(YEAR FROM at) AS y FROM events", ["extract(YEAR FROM at) AS y"], ["y"], None, id="extract"
        ),
        pytest.param(
            "SELECT CASE WHEN a THEN CASE WHEN b THEN 1 END END AS k, c FROM events",
            ["CASE WHEN a THEN CASE WHEN b THEN 1 END END AS k", "c"],
            ["k", "c"],
            None,
            id="CASE in CASE",
        ),
    ],
)
def test_a_select_is_taken_apart_with_each_expression_as_written(
    sql: str, expressions: list[str], names: list[str | None], where: str | None
) -> None:
    select = Select(sql)

    assert (expressions, names, where) == (select.expressions, select.names, select.where)


@pytest.mark.parametrize("end", [";", " ; ", ";;\n", "; -- done", "\n;\n-- done\n;"])
def test_a_semicolon_at_the_end_is_left_out(end: str) -> None:
    assert None is Select(f"SELECT a FROM events{end}").where
    assert "a > 1" == Select(f"SELECT a FROM events WHERE a > 1{end}").where


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a -- the first, FROM there\n, b FROM events",
        "SELECT a, b -- the last\nFROM events",
        "SELECT a AS a -- named\n, b FROM events",
        "SELECT a -- as it is\n AS a, b FROM events",
        "SELECT a, b FROM events -- all of them",
        "SELECT a, b FROM events -- all of them\nWHERE a > 1",
        "SELECT a, b FROM events WHERE a > 1 -- the positive ones",
        "SELECT a, b FROM events WHERE a > 1 -- not zero\n AND b -- nor null\n;",
        "-- what it does\nSELECT a, b FROM events",
        "/* what, FROM */ SELECT a /* x */, b /* y */ FROM events /* z */ WHERE /* v */ a /* w */",
    ],
)
def test_comments_change_nothing_when_expressions_are_put_side_by_side(sql: str) -> None:
    select = Select(sql)
    texts = [*(text for _, text in select.made), *([select.where] if select.where else [])]

    assert ["a", "b"] == select.names
    assert ("WHERE" in sql) == (select.where is not None)
    assert len(texts) == len(arguments_of_one_call(texts))


@pytest.mark.parametrize("name", ["a b", "x`y", "from", "a,b", "ü", "end", "a.b", "it's"])
def test_a_name_in_backticks_comes_out_as_it_is(name: str) -> None:
    quoted = name.replace("`", "``")

    assert [(name, "1")] == Select(f"SELECT 1 AS `{quoted}` FROM events").made
    assert [(name, f"`{quoted}`")] == Select(f"SELECT `{quoted}` FROM events").made


@pytest.mark.parametrize(
    ("part", "before"),
    [
        ("a + 1 AS b", "a + 1"),
        ("a + 1 b", "a + 1"),
        ("a + 1 AS `b`", "a + 1"),
        ("cast(a AS int) AS b", "cast(a AS int)"),
        ("cast(a AS int) b", "cast(a AS int)"),
        ("struct(a AS x, c) AS b", "struct(a AS x, c)"),
        ("CASE a WHEN 1 THEN 2 END b", "CASE a WHEN 1 THEN 2 END"),
        ("arr[0] AS b", "arr[0]"),
        ("interval 1 day AS b", "interval 1 day"),
        ("date '2026-01-31' b", "date '2026-01-31'"),
        ("a BETWEEN 1 AND 2 AS b", "a BETWEEN 1 AND 2"),
        ("transform(arr, x -> x + 1) AS b", "transform(arr, x -> x + 1)"),
        ("(a) AS b", "(a)"),
        ("'AS c' AS b", "'AS c'"),
        ("-a AS b", "-a"),
        ("X'1C' AS b", "X'1C'"),
    ],
)
def test_the_alias_is_cut_off_and_what_stands_before_it_is_kept_to_the_letter(part: str, before: str) -> None:
    assert [("b", before), ("c", "c")] == Select(f"SELECT {part}, c FROM events").made


def test_a_star_makes_nothing_that_was_not_there() -> None:
    assert [("c", "a + 1")] == Select("SELECT *, a + 1 AS c FROM events").made


def test_the_star_of_a_struct_is_refused_for_its_fields_are_no_columns_of_the_table() -> None:
    with pytest.raises(ValueError, match=r"s\.\*"):
        Select("SELECT s.* FROM events")


@pytest.mark.parametrize("star", ["*", "events.*", "EVENTS.*", "`events`.*", "* EXCEPT (a)", "events.* EXCEPT (a, b)"])
def test_the_star_of_the_table_has_no_name(star: str) -> None:
    assert [None, "c"] == Select(f"SELECT {star}, 1 AS c FROM events").names


@pytest.mark.parametrize(
    "condition",
    ["a IS DISTINCT FROM b", "a IS NOT DISTINCT FROM 3", "a > 1 AND (b IS DISTINCT FROM c)"],
)
def test_comparing_with_distinct_from_is_row_local(condition: str) -> None:
    assert condition == Select(f"SELECT a FROM events WHERE {condition}").where
    assert ["same"] == Select(f"SELECT {condition} AS same FROM events").names


@pytest.mark.parametrize(
    "expression",
    [
        "exists(arr, x -> x IS NULL)",
        "forall(arr, x -> x > 1)",
        "filter(arr, (x, i) -> i > 0)",
        "aggregate(arr, 0, (total, x) -> total + x)",
        "array_max(arr)",
        "greatest(a, b)",
        "size(split(a, ','))",
        "to_json(struct(*))",
    ],
)
def test_what_looks_into_one_row_only_is_row_local(expression: str) -> None:
    assert ["x"] == Select(f"SELECT {expression} AS x FROM events").names


def test_sql_that_is_nested_deeper_than_the_parser_follows_is_left_to_spark() -> None:
    nested = "replace(" * 300 + "name" + ", 'a', 'b')" * 300
    select = Select(f"SELECT id, {nested} AS cleaned FROM events WHERE {nested} <> ''")

    assert (["id", f"{nested} AS cleaned"], f"{nested} <> ''") == (select.expressions, select.where)
    assert ["id", "cleaned"] == select.columns(["id", "name"])
    assert f"{nested} = 'x'" == condition(f"{nested} = 'x'")


def test_sql_that_only_spark_understands_is_left_to_spark() -> None:
    assert [("x", "a >>> 2")] == Select("SELECT a >>> 2 AS x FROM events").made


@pytest.mark.parametrize("sql", ["SELECT start, end FROM events", "SELECT a AS end FROM events"])
def test_a_column_called_end_is_no_end_of_a_case(sql: str) -> None:
    assert "end" == Select(sql).names[-1]


@pytest.mark.parametrize("field", ["s.end", "s.case", "s.from", "events.limit", "events.window"])
def test_a_word_after_a_dot_is_the_name_of_a_field(field: str) -> None:
    assert [("x", field)] == Select(f"SELECT {field} AS x FROM events").made
    assert field == Select(f"SELECT a FROM events WHERE {field}").where


@pytest.mark.parametrize("name", ["offset", "limit", "window"])
def test_a_column_called_like_a_clause_is_a_column(name: str) -> None:
    assert f"{name} > 5" == Select(f"SELECT {name} FROM events WHERE {name} > 5").where


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "  ",
        ";",
        "-- nothing",
        "SELECT",
        "SELECT a",
        "DROP TABLE events",
        "INSERT INTO x SELECT a FROM events",
        "WITH e AS (SELECT 1) SELECT a FROM events",
        "FROM events SELECT a",
        "VALUES (1)",
        "SELECT a FROM other",
        "SELECT a FROM db.events",
        "SELECT a FROM events.x",
        "SELECT a FROM events e",
        "SELECT a FROM events AS e",
        "SELECT a FROM events, other",
        "SELECT a FROM events JOIN other",
        "SELECT a FROM (SELECT * FROM events)",
        "SELECT a FROM events TABLESAMPLE (10 PERCENT)",
        "SELECT a FROM events LATERAL VIEW explode(x) t AS y",
        "SELECT a FROM events; SELECT b FROM events",
        "SELECT a FROM events UNION ALL SELECT a FROM events",
        "SELECT DISTINCT a FROM events",
        "SELECT a FROM events GROUP BY a",
        "SELECT a FROM events ORDER BY a",
        "SELECT a FROM events LIMIT 1",
        "SELECT a FROM events WINDOW w AS (PARTITION BY a)",
        "SELECT a FROM events(1) WHERE a",
        "SELECT a FROM 'events'",
    ],
)
def test_any_other_shape_is_refused_with_the_one_there_is(sql: str) -> None:
    with pytest.raises(ValueError, match=re.escape("a step has the shape SELECT ... FROM events [WHERE ...]")):
        Select(sql)


@pytest.mark.parametrize(
    "sql", ["SELECT ALL a FROM events", "SELECT a FROM events WHERE", "SELECT a FROM events WHERE  ;"]
)
def test_what_spark_would_stumble_over_is_refused_before_it_starts(sql: str) -> None:
    with pytest.raises(ValueError, match=r"a step has the shape|an expression is missing"):
        Select(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT (a FROM events",
        "SELECT a) FROM events",
        "SELECT a FROM events WHERE (a]",
        "SELECT a FROM events WHERE a) OR (1 = 1",
        "SELECT a FROM events WHERE a) GROUP BY (a",
        "SELECT a FROM events WHERE (a",
        "SELECT a FROM events WHERE CASE WHEN a THEN b",
    ],
)
def test_brackets_that_do_not_match_are_refused(sql: str) -> None:
    with pytest.raises(ValueError, match=r"'[)\]]' closes nothing|a bracket or a CASE is not closed"):
        Select(sql)


@pytest.mark.parametrize(
    "clause",
    [
        "SORT BY a",
        "DISTRIBUTE BY a",
        "CLUSTER BY a",
        "GROUP BY a",
        "HAVING a",
        "ORDER BY a",
        "LIMIT 1",
        "UNION SELECT 1",
        "INTERSECT SELECT a FROM events",
        "; SELECT a FROM events",
        ", b",
    ],
)
def test_a_clause_after_where_is_refused(clause: str) -> None:
    with pytest.raises(ValueError, match="does not belong there"):
        Select(f"SELECT a FROM events WHERE a {clause}")
    with pytest.raises(ValueError, match="does not belong there"):
        condition(f"a {clause}")


@pytest.mark.parametrize("text", ["a > 1", " a > 1 ", "a > 1 -- the positive ones", "a > 1 /* x */ ;", "-- x\na > 1"])
def test_a_condition_is_cut_at_its_first_and_its_last_word(text: str) -> None:
    assert "a > 1" == condition(text)


@pytest.mark.parametrize("text", ["", "  ", "-- nothing", "(a", "a) OR (b", "count(*) > 1", "a IN (SELECT 1)", "'a"])
def test_what_is_no_row_local_condition_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"missing|closes|closed|more than one event|not SQL"):
        condition(text)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT 'unterminated FROM events", "this is not SQL: a quote (') is not closed"),
        ('SELECT "unterminated FROM events', 'this is not SQL: a quote (") is not closed'),
        ("SELECT `unterminated FROM events", "this is not SQL: a quote (`) is not closed"),
        ("SELECT /* unterminated FROM events", "this is not SQL: a comment is not closed"),
    ],
)
def test_of_text_that_is_no_sql_it_is_said_what_is_not_closed(sql: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        Select(sql)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELEC a FROM events", ", and this begins with 'SELEC'; did you mean SELECT by 'SELEC'?"),
        ("SELECT a form events", ", and FROM is missing; did you mean FROM by 'form'?"),
        ("SELECT a", ", and FROM is missing"),
        ("SELECT a FROM events WHER a > 1", "; 'WHER' does not belong there; did you mean WHERE by 'WHER'?"),
        ("SELECT a FROM events.", "; '.' does not belong there"),
        ("SELECT a FROM events e", "; 'e' does not belong there"),
    ],
)
def test_a_misspelt_keyword_is_named_and_is_not_sent_to_a_second_pipeline(sql: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"{re.escape('[WHERE ...]' + said)}$"):
        Select(sql)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("count(*)", "aggregates look at more than one event"),
        ("1 + sum(a)", "aggregates look at more than one event"),
        ("collect_list(a)", "aggregates look at more than one event"),
        ("first(a)", "aggregates look at more than one event"),
        ("max_by(a, b)", "aggregates look at more than one event"),
        ("row_number() OVER (ORDER BY a)", "window functions look at more than one event"),
        ("explode(a)", "make several rows of one event"),
        ("posexplode(a)", "make several rows of one event"),
        ("inline(a)", "make several rows of one event"),
        ("a IN (SELECT 1)", "subqueries look at more than one event"),
        ("(SELECT 1)", "subqueries look at more than one event"),
        ("EXISTS (SELECT 1)", "subqueries look at more than one event"),
    ],
)
def test_what_is_not_row_local_is_refused_with_the_reason_and_the_way(expression: str, reason: str) -> None:
    for sql in (f"SELECT {expression} AS x FROM events", f"SELECT a FROM events WHERE {expression} > 1"):
        with pytest.raises(ValueError, match=f"{reason}. Instead, land the events first"):
            Select(sql)
