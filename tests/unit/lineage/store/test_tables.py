import datetime

from sqlalchemy import create_engine, create_mock_engine, insert, select

from penstock.lineage.store import tables

_AT = datetime.datetime(2026, 3, 1, 12, 30, 15, 123_456, tzinfo=datetime.UTC)


def test_times_come_back_from_sqlite_in_utc_to_the_microsecond() -> None:
    engine = create_engine("sqlite://")
    tables.metadata.create_all(engine)
    east = _AT.astimezone(datetime.timezone(datetime.timedelta(hours=3)))
    values = {"job_id": 1, "name": "n", "value": "{}", "seen_at": east}
    with engine.begin() as connection:
        connection.execute(insert(tables.job_facet), values)
        found = connection.execute(select(tables.job_facet.c.seen_at)).scalar_one()

    assert (_AT, datetime.UTC) == (found, found.tzinfo)


def test_what_is_cleaned_by_age_is_keyed_by_its_time_first_as_partitions_need_it() -> None:
    for table in tables.HISTORY:
        assert "created_at" == next(iter(table.primary_key)).name


def test_every_table_can_be_made_in_postgresql() -> None:
    made: list[str] = []
    engine = create_mock_engine("postgresql+psycopg://", lambda statement, *_: made.append(str(statement)))
    tables.metadata.create_all(engine, checkfirst=False)

    assert len(tables.metadata.tables) == sum("CREATE TABLE" in each for each in made)
