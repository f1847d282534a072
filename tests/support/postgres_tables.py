"""Tables of PostgreSQL as tests make, copy and swap them past the sink."""

from penstock.sinks.postgres_server import Server

from support.postgres_driver import OTHER, Driver

COORDINATES = "_topic_id text, _partition int, _offset bigint"
MADE = f"CREATE TABLE orders (id bigint, note text, {COORDINATES})"
COPY = "CREATE TABLE copy AS SELECT * FROM orders"
SWAP = "ALTER TABLE orders RENAME TO old; ALTER TABLE copy RENAME TO orders"
PARTITIONED = f"{MADE} PARTITION BY LIST (_partition)"
PARTS = "; ".join(f"CREATE TABLE orders_{n} PARTITION OF orders FOR VALUES IN ({n})" for n in (0, 1))
IDS = "SELECT id FROM orders ORDER BY id"


def fill(server: Server, **spec: object) -> None:
    with Driver(server, **spec) as driver:  # type: ignore[arg-type]
        driver.land(driver.stage([(1, "a"), (2, "b")]), driver.stage([(3, "c")], source_partition=OTHER))
