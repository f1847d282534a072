import stat
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, select

from penstock.errors import Conflict, NotFound
from penstock.lineage.store import database, tables
from penstock.lineage.store.address import StoreAddress
from penstock.lineage.store.database import connect_sqlite, head, migrate, open_engine


@pytest.fixture
def address(tmp_path: Path) -> StoreAddress:
    return StoreAddress(store=str(tmp_path / "home" / "lineage" / "lineage.db"))


def _execute(address: StoreAddress, *statements: str) -> None:
    connection = connect_sqlite(Path(address.store))
    for each in statements:
        connection.execute(each)
    connection.close()


def _is_at(address: StoreAddress) -> str | None:
    engine = create_engine(f"sqlite:///{address.path}")
    with engine.connect() as connection:
        found = MigrationContext.configure(connection).get_current_revision()
    engine.dispose()
    return found


def test_a_store_is_made_once_and_only_its_owner_reads_it(address: StoreAddress) -> None:
    path = Path(address.store)

    assert (True, False) == (migrate(address), migrate(address))
    assert (0o600, 0o700) == (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode))


def test_the_migrations_make_the_tables_that_the_code_works_with(address: StoreAddress) -> None:
    migrate(address)
    engine = open_engine(address)
    with engine.connect() as connection:
        found = compare_metadata(MigrationContext.configure(connection), tables.metadata)
    engine.dispose()

    assert [] == found


def test_the_files_of_the_migrations_are_named_after_their_schemas() -> None:
    scripts = ScriptDirectory(str(Path(database.__file__).parent / "migrations"))

    assert head() == scripts.get_current_head()
    assert database._revisions() == [each.revision for each in reversed([*scripts.walk_revisions()])]


def test_a_store_that_is_not_there_is_not_made_by_asking(address: StoreAddress) -> None:
    with pytest.raises(NotFound, match=r"there is no lineage store at .*lineage\.db"):
        open_engine(address)

    assert not Path(address.store).exists()


def test_a_store_of_a_newer_schema_is_refused_and_stays_as_it_is(address: StoreAddress) -> None:
    migrate(address)
    _execute(address, "UPDATE alembic_version SET version_num = '9999'")
    before = Path(address.store).read_bytes()

    for attempt in (open_engine, migrate):
        with pytest.raises(Conflict, match=r"has the schema 9999, which a newer Penstock made.*Use that Penstock"):
            attempt(address)
    assert before == Path(address.store).read_bytes()


def test_a_store_of_an_older_schema_is_not_read_but_brought_up_to_date_with_its_rows(address: StoreAddress) -> None:
    migrate(address)
    _execute(
        address,
        "DROP VIEW usage_by_day",
        "DROP VIEW usage_by_month",
        "DROP INDEX ix_operation_streaming",
        "UPDATE alembic_version SET version_num = '0001'",
        "INSERT INTO tag (name) VALUES ('kept')",
    )
    with pytest.raises(Conflict, match=r"has the schema 0001, and this Penstock works with .*penstock lineage migrate"):
        open_engine(address)
    migrate(address)
    engine = open_engine(address)
    with engine.connect() as connection:
        found = [*connection.execute(select(tables.tag.c.name)).scalars()]
    engine.dispose()

    assert ["kept"] == found
    assert head() == _is_at(address)


def test_a_file_that_is_no_store_is_named(address: StoreAddress) -> None:
    path = Path(address.store)
    path.parent.mkdir(parents=True)
    path.write_text("no database, whatever its name says" * 100)

    with pytest.raises(Conflict, match="is not an SQLite file"):
        open_engine(address)
