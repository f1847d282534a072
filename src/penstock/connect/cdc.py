"""Capturing the changes of PostgreSQL's tables with Debezium, from checking the database to leaving no slot behind.

What is captured is on record in a private file of Connect's folder, with the name of the password and not the password.
That is in a file of its own, which the worker reads by name.
"""

import re
import time
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field

from penstock.clock import clock
from penstock.config.local_services import folder_of
from penstock.connect import postgres, snapshots
from penstock.connect.client import ConnectClient
from penstock.delivery.durable import locked, read_versioned
from penstock.errors import BrokerUnavailable, Conflict, NotFound, PenstockError, Refused
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.positions import bounds
from penstock.kafka.producer import Producer
from penstock.kafka.topic_spec import TopicSpec
from penstock.private import make_missing_private, write_private
from penstock.record.formats import KEY, SERVICE
from penstock.secret import Secret
from penstock.services.connect import secrets_folder
from penstock.sinks.postgres_server import Server, outage_is_transient
from penstock.wording import nearest

if TYPE_CHECKING:
    import psycopg

DEBEZIUM_POSTGRES = "io.debezium:debezium-connector-postgres:3.6.2.Final"
NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
_CLASS = "io.debezium.connector.postgresql.PostgresConnector"
_JSON = "org.apache.kafka.connect.json.JsonConverter"
# Changes are kept: a mirror is filled from them again. Compaction would delete the older changes of a row, with large
# values that the newer ones leave out, and takes no truncate, which has no key.
_KEEPING = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
_READY_S = 120.0
_LOOK_EVERY_S = 0.3


class Capture(BaseModel, frozen=True, extra="forbid"):
    """Tables of one database whose changes are captured."""

    name: str = Field(description="Its name, which is also the connector's, and the prefix of its topics.")
    server: Server = Field(description="Where the database is.")
    tables: list[str] = Field(description="The tables, with their schemas.")

    @property
    def slot(self) -> str:
        """The replication slot, and the publication."""
        return f"penstock_{self.name}"

    def topic(self, table: str) -> str:
        """Name the topic of a table."""
        return f"{self.name}.{re.sub(r'[^A-Za-z0-9._-]', '_', table)}"


class SlotStatus(BaseModel, frozen=True):
    """The state of a capture's replication slot, as the database reports it."""

    slot: str = Field(description="Name of the slot, and of the publication.")
    state: Literal["active", "nobody reads it", "lost", "missing", "unknown"] = Field(
        description="lost: the log that it needs is gone, and a new snapshot is needed; unknown: nobody answered."
    )
    wal_held_bytes: int | None = Field(None, description="How much of its log the database keeps for it.")
    lag_bytes: int | None = Field(None, description="How much of the log the capture has not confirmed.")
    not_captured: list[str] = Field(
        default=[],
        description="Tables that it captures no longer, or not wholly: recreated, or its publication was altered.",
    )
    problem: str = Field("", description="Why it is unknown.")


def slot_status(capture: Capture, statement_timeout_ms: int | None = None) -> SlotStatus:
    """Ask the database of a capture; if it does not answer or refuses the login, the status says so."""
    update = {} if statement_timeout_ms is None else {"statement_timeout": statement_timeout_ms}
    try:
        server = capture.server.model_copy(update=update)
        with outage_is_transient(f"{server.host}:{server.port}", safe=""), server.connect() as connection:
            found = postgres.slot_of(connection, capture.slot)
            lost = postgres.unpublished(connection, capture.slot, capture.tables)
    except PenstockError as error:
        return SlotStatus(slot=capture.slot, state="unknown", problem=error.what)
    if found is None:
        return SlotStatus(slot=capture.slot, state="missing", not_captured=lost)
    state: Literal["active", "nobody reads it", "lost"] = "active" if found.is_active else "nobody reads it"
    return SlotStatus(
        slot=capture.slot,
        state="lost" if found.wal_status == "lost" else state,
        wal_held_bytes=found.held_bytes,
        lag_bytes=found.lag_bytes,
        not_captured=lost,
    )


@dataclass(frozen=True)
class Captures:
    """The captures of one project."""

    home: Path
    client: ConnectClient

    @property
    def _folder(self) -> Path:
        return folder_of(self.home, "connect") / "cdc"

    def names(self) -> list[str]:
        """Return the names of all captures."""
        return sorted(path.stem for path in self._folder.glob("*.json"))

    def load(self, name: str) -> Capture:
        """Return a capture; raise `NotFound` if there is none."""
        try:
            content = read_versioned(self._folder / f"{name}.json", SERVICE)
        except FileNotFoundError:
            close = nearest(name, self.names())
            raise NotFound(
                f"there is no capture '{name}'",
                fix=(f"Did you mean '{close}'? " if close else "") + "List captures with: penstock cdc status",
            ) from None
        return self._with_password(Capture.model_validate(content))

    def _with_password(self, capture: Capture) -> Capture:
        """Return it with the worker's copy of the password if what was named is gone, as a variable with its shell."""
        try:
            if capture.server.password is not None:
                capture.server.password.reveal()
        except PenstockError:
            if self._password_file(capture).exists():
                return capture.model_copy(update={"server": self._as_the_worker_does(capture)})
        return capture

    def require_new(self, name: str) -> None:
        """Raise `Conflict` if there is a capture of this name."""
        if name in self.names():
            raise Conflict(f"'{name}' is captured already", fix=f"See: penstock cdc status {name}")

    def add(self, capture: Capture, admin: Admin) -> None:
        """Publish the tables, make the topics and the connector, and wait until it reads.

        The database has been looked at (`postgres.capture_problems`). If the connector does not start, all is undone.
        """
        with self._alone(capture.name):
            self._add(capture, admin)

    def _add(self, capture: Capture, admin: Admin) -> None:
        self.require_new(capture.name)
        self._keep(capture)
        try:
            with capture.server.connect() as connection:
                generated = postgres.generated_columns(connection, capture.tables)
                postgres.publish(connection, capture.slot, capture.tables)
            for table in capture.tables:
                _make_topic(admin, capture.topic(table))
            config = self._config(capture, generated)
            self.client.require_valid({**config, "name": capture.name})
            snapshots.ensure_topic(admin, capture.name)
            for table in capture.tables:
                _say_it_is_empty(admin, capture.topic(table))
            snapshots.note(admin, capture.name, "begun")
            self.client.put(capture.name, config)
            self._wait_until_read(capture)
        except BaseException:
            with suppress(PenstockError):  # what cannot be taken back now is on record, and goes with `cdc remove`
                self._remove(capture.name)
            raise

    def lock_of(self, name: str) -> Path:
        """Return the lock file of adding or removing a capture, and of restarting its snapshot."""
        return self._folder / f"{name}.lock"

    def _alone(self, name: str) -> AbstractContextManager[None]:
        make_missing_private(self._folder)
        return locked(self.lock_of(name))

    def _keep(self, capture: Capture) -> None:
        import orjson

        for folder in (self._folder, self._password_file(capture).parent):
            make_missing_private(folder)
        content = {KEY: SERVICE, **capture.model_dump(mode="json")}
        password = capture.server.password
        content["server"]["password"] = password.source if password else None
        write_private(self._folder / f"{capture.name}.json", orjson.dumps(content, option=orjson.OPT_INDENT_2))
        if password is not None:
            write_private(self._password_file(capture), password.reveal().encode())

    def _password_file(self, capture: Capture) -> Path:
        return secrets_folder(folder_of(self.home, "connect")) / f"cdc-{capture.name}.password"

    def _config(self, capture: Capture, left_out: list[str]) -> dict[str, str]:
        server, password = capture.server, self._password_file(capture).resolve()
        trust = server.trust()
        settings = {
            "connector.class": _CLASS,
            "tasks.max": "1",
            "plugin.name": "pgoutput",
            "database.hostname": server.host,
            "database.port": str(server.port),
            "database.dbname": server.database,
            "database.user": server.user,
            "database.sslmode": trust["sslmode"],
            "driver.requireAuth": trust["require_auth"],  # by itself it would show the password to whoever asks for it
            "topic.prefix": capture.name,
            "slot.name": capture.slot,
            "publication.name": capture.slot,
            "publication.autocreate.mode": "disabled",
            **snapshots.settings(capture.name),
            "table.include.list": ",".join(re.escape(table) for table in capture.tables),
            "snapshot.mode": "initial",
            "heartbeat.interval.ms": "10000",
            "tombstones.on.delete": "true",
            "skipped.operations": "none",
            "decimal.handling.mode": "string",
            "interval.handling.mode": "string",  # as a number, a month would be 30 days and some hours
            "column.propagate.source.type": ".*",  # or nobody could tell how many digits a number has
            "key.converter": _JSON,
            "key.converter.schemas.enable": "false",
            "value.converter": _JSON,
            "value.converter.schemas.enable": "true",
            "value.converter.replace.null.with.default": "false",  # a null is a null, whatever default its column has
            # Where whole rows are logged a change has large values twice; more than a million bytes would end the task.
            "producer.override.max.request.size": "30000000",
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "-1",
        }
        if left_out:  # the snapshot would have them, and no change after it
            settings["column.exclude.list"] = ",".join(map(re.escape, left_out))
        if server.password is not None:
            settings["database.password"] = f"${{directory:{password.parent}:{password.name}}}"
        if server.ca_file is not None:
            settings["database.sslrootcert"] = str(server.ca_file)
        return settings

    def _wait_until_read(self, capture: Capture) -> None:
        """Wait for the first change; for a snapshot that takes long, until its slot keeps what changes meanwhile."""
        until = time.monotonic() + _READY_S
        slot: postgres.Slot | None = None
        while time.monotonic() < until:
            try:
                found = self.client.connector(capture.name)
            except NotFound:  # it was accepted, and the worker has not heard
                time.sleep(_LOOK_EVERY_S)
                continue
            if found.has_failed:
                raise Conflict(f"the connector '{capture.name}' has failed: {found.cause}", safe="It is removed")
            if found.is_running:
                with capture.server.connect() as connection:
                    slot = postgres.slot_of(connection, capture.slot)
                if slot is not None and slot.is_active:
                    return
            time.sleep(_LOOK_EVERY_S)
        if slot is None:
            raise BrokerUnavailable(f"the connector '{capture.name}' does not read after {_READY_S:.0f} seconds")

    def restart_snapshot(self, capture: Capture, admin: Admin) -> None:
        """Take the snapshot once more, after a truncate in each topic; whoever is interrupted in this does it again.

        The caller holds the capture's lock. Between the truncate and the new snapshot nothing is written: Connect
        resets the offsets of a connector only when its tasks have ended, and shuts out a task that does not know that
        it has. The slot goes: Debezium reads the rows as they were where a slot begins only if it makes the slot.
        """
        if snapshots.state(admin, capture.name) != "restarting":
            snapshots.note(admin, capture.name, "restarting")
        self.client.stop(capture.name)
        self._wait_until_stopped(capture.name)
        self.client.reset_offsets(capture.name)
        with self._as_the_worker_does(capture).connect() as connection:
            self._drop_slot(connection, capture)
        for table in capture.tables:
            _make_topic(admin, capture.topic(table))  # somebody may have deleted it
            _say_it_is_empty(admin, capture.topic(table))
        snapshots.note(admin, capture.name, "begun")
        self.client.resume(capture.name)

    def remove(self, name: str) -> None:
        """Remove the connector with its offsets, the slot and the publication; topics stay, for their records do."""
        with self._alone(name):
            self._remove(name)

    def _remove(self, name: str) -> None:
        capture = self.load(name)
        try:
            self.client.stop(name)
            self._wait_until_stopped(name)
            self.client.reset_offsets(name)
            self.client.remove(name)
            self._wait_until_gone(name)
        except NotFound:
            pass  # it was never made, or somebody was faster
        with capture.server.connect() as connection:
            self._drop_slot(connection, capture)
            postgres.unpublish(connection, capture.slot)
        self._password_file(capture).unlink(missing_ok=True)
        (self._folder / f"{name}.json").unlink(missing_ok=True)

    def _as_the_worker_does(self, capture: Capture) -> Server:
        """Return the database as the worker logs in: a password that was named by a variable may be gone since."""
        if capture.server.password is None:
            return capture.server
        password = Secret.parse(f"file:{self._password_file(capture).resolve()}")
        return capture.server.model_copy(update={"password": password})

    def _drop_slot(self, connection: "psycopg.Connection[Any]", capture: Capture) -> None:
        until = time.monotonic() + _READY_S
        while not postgres.drop_slot(connection, capture.slot):
            if time.monotonic() > until:
                raise Conflict(f"the slot {capture.slot} is still in use", safe="The connector does not run")
            time.sleep(_LOOK_EVERY_S)

    def _wait_until_stopped(self, name: str) -> None:
        until = time.monotonic() + _READY_S
        while True:
            found = self.client.connector(name)
            if found.state == "STOPPED" and found.tasks.endswith("/0"):
                return
            if time.monotonic() > until:
                raise BrokerUnavailable(
                    f"the connector '{name}' has not stopped within {_READY_S:.0f} seconds",
                    safe="Its offsets and its slot stay",
                    fix=f"See: penstock connect show {name}",
                )
            time.sleep(_LOOK_EVERY_S)

    def _wait_until_gone(self, name: str) -> None:
        """Wait until the worker has seen the removal, which it reads from its topic: until then it may still read."""
        until = time.monotonic() + _READY_S
        while name in {each.name for each in self.client.connectors()}:
            if time.monotonic() > until:
                raise BrokerUnavailable(
                    f"the connector '{name}' is there {_READY_S:.0f} seconds after its removal",
                    safe="The slot and the publication stay",
                    fix=f"Run once more: penstock cdc remove {name}",
                )
            time.sleep(_LOOK_EVERY_S)


def forgetful_topics(capture: Capture, admin: Admin) -> dict[str, str]:
    """Return the topics of a capture that delete changes, each with the setting that causes it.

    A mirror cannot be filled from one of them again. A topic whose settings we may not read is left out.
    """
    found = dict[str, str]()
    for topic in map(capture.topic, capture.tables):
        with suppress(NotFound, Refused):
            known = topics.config(admin, topic)
            wrong = [f"{key} {known[key][0]}" for key, value in _KEEPING.items() if known[key][0] != value]
            if wrong:
                found[topic] = ", ".join(wrong)
    return found


def _make_topic(admin: Admin, topic: str) -> None:
    """Create a topic of one partition, which keeps changes of all keys in order: applying a truncate needs that."""
    preferred: dict[str, str | int | bool] = {"max.message.bytes": 100_000_000, **_KEEPING}
    count = topics.ensure(admin, topic, TopicSpec(partitions=1), preferred=preferred)
    if count > 1:
        raise Conflict(
            f"topic '{topic}' has {count} partitions, and the changes of a table have one order only in one",
            safe="Nothing was captured",
            fix="Give the capture another name, or delete the topic",
        )


def _say_it_is_empty(admin: Admin, topic: str) -> None:
    """Send a truncate to a topic that has changes already: the snapshot that follows has all rows of the table.

    It does not have those that were deleted before it, and no change will ever take them out.
    """
    if not bounds(admin, [(topic, 0)])[topic, 0][1]:
        return
    at_ms = round(clock().now().timestamp() * 1000)
    change = f'{{"schema":null,"payload":{{"op":"t","before":null,"after":null,"source":{{}},"ts_ms":{at_ms}}}}}'
    with Producer(admin.connection) as producer:
        producer.send(topic, change.encode(), partition=0)
