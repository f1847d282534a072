"""SQL steps: each event gives one row or none, and a record that the SQL fails on is the only one to go."""

import datetime

import pytest

from penstock.errors import BadInput
from penstock.kafka.producer import Producer

from support.pipelines import Lab, record_errors, total


def test_rows_that_where_leaves_out_are_counted_as_dropped(lab: Lab) -> None:
    topic = lab.kafka.topic("where")
    lab.send_ids(topic, range(10))
    lab.send(topic, b"poison", {"id": 11})

    reports = lab.run(lab.spec(topic, steps=[{"sql": "SELECT * FROM events WHERE id % 2 = 0 AND name IS NOT NULL"}]))

    assert [0, 2, 4, 6, 8] == lab.ids()
    count = total(reports)
    assert (12, 5, 1, 6) == (count.read, count.written, count.dead, count.dropped)


def test_an_expression_that_fails_on_a_record_sends_that_record_away_and_is_named(lab: Lab) -> None:
    topic = lab.kafka.topic("division")
    lab.send(topic, {"id": 4, "name": "8"}, {"id": 0, "name": "8"}, {"id": 2, "name": "x"}, {"id": 5, "name": "5"})
    steps = [
        {"sql": "SELECT id, CAST(name AS int) AS number, 100 / id AS share FROM events"},
        {"sql": "SELECT *, 1 AS after FROM events"},
    ]

    reports = lab.run(lab.spec(topic, steps=steps))

    assert [(4, 8, 25.0, 1), (5, 5, 20.0, 1)] == [
        (row["id"], row["number"], row["share"], row["after"]) for row in lab.rows()
    ]
    assert [(1, "sql", "SqlFailed"), (2, "sql", "SqlFailed")] == record_errors(lab.letters(topic))
    assert ["fails on this record: 100 / id", "fails on this record: CAST(name AS int)"] == [
        letter.message for letter in lab.letters(topic)
    ]
    assert 2 == total(reports).dead


def test_a_condition_that_fails_on_a_record_is_named_too(lab: Lab) -> None:
    topic = lab.kafka.topic("condition")
    lab.send_ids(topic, [1, 0, 3])

    lab.run(lab.spec(topic, steps=[{"sql": "SELECT id FROM events WHERE 6 / id > 2"}]))

    assert [1] == lab.ids()
    assert [(1, "sql", "SqlFailed")] == record_errors(lab.letters(topic))
    assert "6 / id > 2" in lab.letters(topic)[0].message


def test_columns_come_out_in_the_order_of_the_select(lab: Lab) -> None:
    topic = lab.kafka.topic("order")
    lab.send(topic, {"id": 7, "name": "x", "secret": "s"})
    query = "SELECT upper(name) AS shouted, * EXCEPT (secret), id * 2 AS twice, CASE WHEN id > 5 THEN 'big' END AS size"

    lab.run(
        lab.spec(
            topic,
            decode={"type": "json", "schema": "id bigint, name string, secret string"},
            steps=[{"sql": f"{query} FROM events"}],
        )
    )

    (row,) = lab.rows()
    assert ["shouted", "id", "name", "twice", "size", "_topic_id", "_partition", "_offset"] == list(row)
    assert ["X", 7, "x", 14, "big"] == list(row.values())[:5]


def test_names_with_spaces_capitals_and_quotes_survive_a_select(lab: Lab) -> None:
    topic = lab.kafka.topic("names")
    lab.send(topic, {"a b": 1, "C": 2})

    lab.run(
        lab.spec(
            topic,
            decode={"type": "json", "schema": "`a b` int, C int"},
            steps=[{"sql": "SELECT *, `a b` + c AS `it's sum` FROM events WHERE c = 2"}],
        )
    )

    (row,) = lab.rows()
    assert {"a b": 1, "C": 2, "it's sum": 3} == {name: row[name] for name in list(row)[:3]}


def test_names_with_dots_survive_a_select(lab: Lab) -> None:
    topic = lab.kafka.topic("dots")
    lab.send(topic, {"a.b": 1})

    lab.run(
        lab.spec(
            topic,
            decode={"type": "json", "schema": "`a.b` int"},
            steps=[{"sql": "SELECT *, `a.b` + 1 AS more FROM events"}],
        )
    )

    assert [(1, 2)] == [(row["a.b"], row["more"]) for row in lab.rows()]


def test_key_headers_and_timestamp_can_be_made_columns(lab: Lab) -> None:
    topic = lab.kafka.topic("envelope", retention="forever")
    at = datetime.datetime(2026, 1, 31, 12, 0, 0, 5000, tzinfo=datetime.UTC)
    with Producer(lab.connection) as producer:
        producer.send(topic, b"{}", key=b"key", headers=[("h", b"1")], timestamp_ms=int(at.timestamp() * 1000))
        producer.send(topic, b"{}")
    query = "CAST(_key AS string) AS k, CAST(_headers[0].value AS string) AS h, _timestamp AS at, _offset AS o"

    lab.run(
        lab.spec(
            topic,
            decode={"type": "json", "schema": "id bigint"},
            steps=[{"sql": query.join(["SELECT ", " FROM events WHERE _offset = 0 OR _key IS NULL"])}],
        )
    )

    first = lab.rows()[0]
    assert ("key", "1", at, 0) == (first["k"], first["h"], first["at"], first["o"])


def test_sql_that_spark_does_not_understand_is_the_users_mistake(lab: Lab) -> None:
    topic = lab.kafka.topic("nonsense")
    lab.send_ids(topic, [1])

    with pytest.raises(BadInput, match=r"Spark does not understand the SQL '.*': .*no_such_function"):
        lab.run(lab.spec(topic, steps=[{"sql": "SELECT no_such_function(id) AS x FROM events"}]))
    with pytest.raises(BadInput, match=r"Spark does not understand the SQL 'id >': an expression is incomplete"):
        lab.run(lab.spec(topic, expect=[{"name": "half", "that": "id >"}]))
    with pytest.raises(
        BadInput, match=r"there is no column 'nmae'\. Did you mean 'name'\? There are id, name\. Nothing"
    ):
        lab.run(lab.spec(topic, steps=[{"sql": "SELECT id, upper(nmae) AS name FROM events"}]))
    assert not lab.table.exists()


def test_a_star_inside_of_a_function_means_the_columns_of_the_user(lab: Lab) -> None:
    topic = lab.kafka.topic("star")
    lab.send(topic, {"id": 1, "name": "one"})

    lab.run(lab.spec(topic, steps=[{"sql": "SELECT id, to_json(struct(*)) AS whole FROM events"}]))

    assert ['{"id":1,"name":"one"}'] == [row["whole"] for row in lab.rows()]


def test_every_row_finds_its_own_record_again_after_sql_that_leaves_rows_out(lab: Lab) -> None:
    topic = lab.kafka.topic("aside", partitions=2)
    (lab.folder / "odd.py").write_text(
        "def check(row):\n    if row['id'] % 7 == 0:\n        raise ValueError('seven')\n    return row\n"
    )
    for partition in (0, 1):
        values = [{"id": 2 * number + partition, "name": f"n{number}"} for number in range(300)]
        lab.send(topic, *values, b"not json", partition=partition)
    steps = [
        {"python": "odd:check"},
        {"sql": "SELECT id, name FROM events WHERE id % 5 <> 0"},
        {"python": "odd:check"},
        {"sql": "SELECT id, name, _offset AS at FROM events WHERE id % 3 <> 0"},
    ]
    expect = [{"name": "not eleven", "that": "id % 11 <> 0", "otherwise": "dead_letter"}]

    count = total(lab.run(lab.spec(topic, steps=steps, expect=expect)))

    landed = [number for number in range(600) if all(number % each for each in (7, 5, 3, 11))]
    rows = lab.rows()
    assert landed == sorted(row["id"] for row in rows)
    assert all((row["id"] // 2, row["id"] % 2) == (row["_offset"], row["_partition"]) for row in rows)
    assert all(row["at"] == row["_offset"] for row in rows)
    letters = lab.letters(topic)
    sevens = {number for number in range(600) if number % 7 == 0}
    elevens = {number for number in range(600) if number % 11 == 0 and all(number % each for each in (7, 5, 3))}
    assert sorted([*sevens, *elevens]) == sorted(
        2 * each.offset + each.partition for each in letters if each.offset < 300
    )
    assert 2 == sum(each.offset == 300 and each.error == "Malformed" for each in letters)
    assert (602, len(landed), len(sevens) + len(elevens) + 2) == (count.read, count.written, count.dead)


@pytest.mark.parametrize("engine", ["auto", "spark"])
def test_workers_and_spark_make_the_same_of_a_pipeline(lab: Lab, engine: str) -> None:
    topic = lab.kafka.topic("engines")
    lab.send_ids(topic, range(6))
    lab.send(topic, b"poison", {"id": 9223372036854775807, "name": "last"}, {"id": 7})
    steps = [
        {"sql": "SELECT *, id * 2 AS twice, 12 / id AS share FROM events WHERE id <> 5"},
        {"sql": "SELECT id, share, coalesce(name, 'nobody') AS who, twice FROM events"},
    ]
    expect = [{"name": "small", "that": "share BETWEEN 2 AND 10", "otherwise": "dead_letter"}]

    reports = lab.run(lab.spec(topic, steps=steps, expect=expect, sql_engine=engine))

    rows = sorted((row["id"], row["share"], row["who"], row["twice"]) for row in lab.rows())
    assert [(2, 6.0, "n2", 4), (3, 4.0, "n3", 6), (4, 3.0, "n4", 8)] == rows
    assert [
        (0, "sql", "SqlFailed"),
        (1, "expect", "ExpectationFailed"),
        (6, "decode", "Malformed"),
        (7, "sql", "SqlFailed"),
        (8, "expect", "ExpectationFailed"),
    ] == record_errors(lab.letters(topic))
    assert ["fails on this record: 12 / id", "fails on this record: id * 2"] == [
        letter.message for letter in lab.letters(topic) if letter.error == "SqlFailed"
    ]
    count = total(reports)
    assert (9, 3, 5, 1) == (count.read, count.written, count.dead, count.dropped)


def test_in_spark_what_stands_twice_fails_its_record_alone_and_only_where_it_is_evaluated(lab: Lab) -> None:
    topic = lab.kafka.topic("twice")
    lab.send_ids(topic, range(4))
    steps = [
        {"sql": "SELECT id, id <> 0 AND 6 / id > 1 AND 6 / id < 4 AS few FROM events"},
        {"sql": "SELECT *, 1 / (id - 1) AS a, 1 / (id - 1) + 1 AS b FROM events"},
    ]

    lab.run(lab.spec(topic, steps=steps, sql_engine="spark"))

    assert [(0, False), (2, True), (3, True)] == sorted((row["id"], row["few"]) for row in lab.rows())
    assert ["fails on this record: 1 / (id - 1); 1 / (id - 1) + 1"] == [each.message for each in lab.letters(topic)]
