"""What a database says of the slot of a capture."""

from penstock.connect.cdc import Capture, slot_status
from penstock.lab.bench.throwaway_postgres import RunningPostgres


def test_a_slot_that_nobody_reads_holds_the_log_and_one_that_was_dropped_is_missing(
    logical_postgres: RunningPostgres,
) -> None:
    server = logical_postgres.database("slots")
    capture = Capture(name="slots", server=server, tables=["public.orders"])
    before = slot_status(capture)
    with server.connect() as connection:
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [capture.slot])
        connection.execute("CREATE TABLE orders AS SELECT generate_series(1, 10000) AS id")
        connection.commit()
        held = slot_status(capture, 5_000)
        connection.execute("SELECT pg_drop_replication_slot(%s)", [capture.slot])
        connection.commit()
    away = slot_status(capture.model_copy(update={"server": server.model_copy(update={"database": "no-such"})}))

    assert ["missing", "nobody reads it", "missing"] == [before.state, held.state, slot_status(capture).state]
    assert (held.wal_held_bytes or 0) >= (held.lag_bytes or 0) > 100_000
    assert ("unknown", True) == (away.state, "no-such" in away.problem)
