"""A Kafka topic.

Guarantee: exactly once for readers of committed records. Tasks write records aside; the driver sends a batch and moves
the position in one transaction. A reader of uncommitted records may see records of attempts that were given up.
Records of one source partition keep their order.
"""

import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import orjson
import pyarrow as pa
from pydantic import BaseModel, Field

from penstock.decoders.decoded import Fault
from penstock.delivery.outbox import RECORDS, Outbox, OutboxFile
from penstock.delivery.positions import Place, Positions, Stretch
from penstock.errors import BadInput
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.pipeline.columns import COORDINATES
from penstock.sinks.rows import plain_rows
from penstock.sinks.sink import Sink


class Kafka(BaseModel, frozen=True, extra="forbid"):
    """A topic of the project's Kafka. Exactly once for readers of committed records."""

    type: Literal["kafka"] = Field("kafka", description="A Kafka topic.")
    name: str | None = Field(None, description="Name of the sink in reports and positions; its type if left out.")
    topic: str = Field(description="The topic; it must be there.")
    where: str | None = Field(None, description="SQL condition: only rows that meet it go to this sink.")
    key: str | None = Field(
        None,
        description="Column whose text becomes the key, and so chooses the partition; the record's key if left out.",
    )
    value: str | None = Field(
        None, description="Column whose bytes or text become the value; a JSON object of all columns if left out."
    )

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """The columns of Penstock that records are made with."""
        return (*COORDINATES, "_key")

    def sink(self, name: str, group: str, connection: Connection, scratch: Path) -> "KafkaSink":
        """Make the driver's part."""
        return KafkaSink(self, name, group, connection, scratch)


class KafkaSink(Sink):
    """Sends what the tasks staged."""

    positions_expire = True

    def __init__(self, spec: Kafka, name: str, group: str, connection: Connection, scratch: Path) -> None:
        super().__init__(name)
        self._spec = spec
        self._connection = connection
        self._scratch = scratch
        self._outbox = Outbox(connection, name, group)

    def open(self, schema: pa.Schema) -> None:
        """Check topic and columns."""
        for column in (self._spec.key, self._spec.value):
            if column is not None and column not in schema.names:
                raise BadInput(f"sink '{self.name}' names the column '{column}', which there is not")
        topics.partition_count(Admin(self._connection), self._spec.topic)

    def positions(self, places: Iterable[Place]) -> Positions | None:
        """Read the positions from the group."""
        return self._outbox.positions(places)

    def take_over(self) -> None:
        """Fence any older driver."""
        self._outbox.take_over()

    def stager(self) -> "KafkaStagerFactory":
        """Give what tasks make records with."""
        return KafkaStagerFactory(self._spec, self._scratch / self.name)

    def commit(self) -> None:
        """Send records and positions in one transaction."""
        files = [Path(each.detail["file"]) for each in self._staged if each.detail.get("file")]
        self._outbox.send(files, self._expected, {each.stretch.place: each.stretch.end for each in self._staged})
        for path in files:
            path.unlink()

    def close(self) -> None:
        """Let go of the clients."""
        self._outbox.close()


class KafkaStagerFactory:
    """Opens a file of records per stretch."""

    def __init__(self, spec: Kafka, folder: Path) -> None:
        self._spec = spec
        self._folder = folder

    def __call__(self, _stretch: Stretch) -> "KafkaStager":
        """Open the file at the first row."""
        return KafkaStager(self._spec, self._folder / f"{uuid.uuid4().hex}.arrow")


class KafkaStager:
    """Turns rows into records."""

    def __init__(self, spec: Kafka, path: Path) -> None:
        self._spec = spec
        self._file = OutboxFile(path)

    def write(self, rows: pa.RecordBatch, _offsets: pa.Array) -> list[tuple[int, Fault]]:
        """Encode keys and values; the coordinates go into headers."""
        count = rows.num_rows
        shown = rows.drop_columns([*COORDINATES, "_key"])
        key, value = self._spec.key, self._spec.value
        keys = (
            rows.column("_key") if key is None else pa.array(map(_encoded, rows.column(key).to_pylist()), pa.binary())
        )
        values = (
            map(orjson.dumps, plain_rows(shown)) if value is None else map(_encoded, rows.column(value).to_pylist())
        )
        coordinates = zip(*(rows.column(name).to_pylist() for name in COORDINATES), strict=True)
        headers = [
            [
                {"name": f"penstock.{name.strip('_')}", "value": str(part).encode()}
                for name, part in zip(COORDINATES, parts, strict=True)
            ]
            for parts in coordinates
        ]
        columns = [
            pa.repeat(self._spec.topic, count),
            pa.repeat(pa.scalar(-1, pa.int32()), count),
            keys,
            pa.array(list(values), pa.binary()),
            pa.array(headers, RECORDS.field("headers").type),
            pa.repeat(pa.scalar(0, pa.int64()), count),
        ]
        self._file.write(pa.RecordBatch.from_arrays(columns, schema=RECORDS))
        return []

    def finish(self) -> dict[str, Any]:
        """Close the file."""
        return {"file": self._file.finish()}


def _encoded(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else str(value).encode()
