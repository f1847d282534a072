"""What operations read and wrote, as columns: the most of what events say, and all of one shape.

Only a use that says its own time is here: one in the first hour of an operation whose id is a UUIDv7, which holds that
time. Any other stays a fact. Guarantee: `put_back` gives the very facts that `taken` took. To make objects of tens of
thousands, and rows of those, takes a driver longer than all the rest; as columns they are numbered and sent.
"""

import struct
from collections.abc import Collection
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import numpy.typing as npt

from penstock.lineage.collected import Facts, put
from penstock.lineage.facts import ColumnLineage, Input, IoKey, Output
from penstock.lineage.keys import DatasetKey, JobKey, time_of

_IO = np.dtype(
    [
        ("operation", "V16"),
        ("dataset", "i4"),
        ("run", "V16"),
        ("job", "i4"),
        ("kinds", "i4"),
        ("has_schema", "?"),
        ("schema", "V16"),
        ("num_bytes", "i8"),  # -1 if nobody has said it; so are the others
        ("num_rows", "i8"),
        ("num_files", "i8"),
    ]
)
_LINEAGE = np.dtype(
    [("operation", "V16"), ("source", "i4"), ("target", "i4"), ("fingerprint", "V16"), ("run", "V16"), ("job", "i4")]
)
Rows = npt.NDArray[np.void]
_pack_io = struct.Struct("=16si16sii?16sqqq").pack
_pack_lineage = struct.Struct("=16sii16s16si").pack
_NO_SCHEMA = bytes(16)
_KINDS = 4  # its place in a row
_LINEAGE_KEY_BYTES = 40  # all but run and job


class Uses(msgspec.Struct, array_like=True):
    """The uses of one task, each once. Datasets and jobs go by their place in the lists."""

    datasets: list[DatasetKey]
    jobs: list[JobKey]
    packed_inputs: bytes
    packed_outputs: bytes
    packed_lineage: bytes

    @property
    def inputs(self) -> Rows:
        """What was read."""
        return np.frombuffer(self.packed_inputs, _IO)

    @property
    def outputs(self) -> Rows:
        """What was written."""
        return np.frombuffer(self.packed_outputs, _IO)

    @property
    def column_lineage(self) -> Rows:
        """What columns were made of."""
        return np.frombuffer(self.packed_lineage, _LINEAGE)

    def operations(self) -> set[bytes]:
        """Return the ids of all operations."""
        return {
            each for rows in (self.inputs, self.outputs, self.column_lineage) for each in rows["operation"].tolist()
        }

    def put_back(self, facts: Facts, ids: Collection[bytes]) -> "Uses":
        """Add what operations of these ids did to the facts; return the others."""
        kept = []
        for rows, add in (
            (self.inputs, self._add_input),
            (self.outputs, self._add_output),
            (self.column_lineage, self._add_lineage),
        ):
            taken = np.array([each in ids for each in rows["operation"].tolist()], bool)
            for row in rows[taken].tolist():
                add(facts, row)
            kept.append(rows[~taken].tobytes())
        return Uses(self.datasets, self.jobs, *kept)

    def _key(self, operation: bytes, dataset: int) -> IoKey:
        id_ = UUID(bytes=operation)
        created_at = time_of(id_)
        if created_at is None:
            raise ValueError(f"{id_} holds no time")
        return IoKey(id_, self.datasets[dataset], created_at)

    def _said(self, row: tuple[Any, ...]) -> dict[str, Any]:
        operation, dataset, run, job, _, has_schema, schema, *counts = row
        num_bytes, num_rows, num_files = (None if each < 0 else each for each in counts)
        return {
            "key": self._key(operation, dataset),
            "run_id": UUID(bytes=run),
            "job": self.jobs[job],
            "schema": UUID(bytes=schema) if has_schema else None,
            "num_bytes": num_bytes,
            "num_rows": num_rows,
            "num_files": num_files,
        }

    def _add_input(self, facts: Facts, row: tuple[Any, ...]) -> None:
        made = Input(**self._said(row))
        put(facts.inputs, made.key, made)

    def _add_output(self, facts: Facts, row: tuple[Any, ...]) -> None:
        made = Output(**self._said(row), kinds=row[_KINDS])
        put(facts.outputs, made.key, made)

    def _add_lineage(self, facts: Facts, row: tuple[Any, ...]) -> None:
        operation, source, target, fingerprint, run, job = row
        key = self._key(operation, target)
        facts.column_lineage.add(
            ColumnLineage(
                operation_id=key.operation_id,
                run_id=UUID(bytes=run),
                job=self.jobs[job],
                source=self.datasets[source],
                target=key.dataset,
                created_at=key.created_at,
                fingerprint=UUID(bytes=fingerprint),
            )
        )


def taken(facts: Facts) -> tuple[Facts, Uses]:
    """Split facts into those that stay, and uses."""
    datasets: dict[DatasetKey, int] = {}
    jobs: dict[JobKey, int] = {}
    inputs: list[bytes] = []
    outputs: list[bytes] = []

    def packed(each: Input | Output, kinds: int) -> bytes:
        key, schema = each.key, each.schema
        return _pack_io(
            key.operation_id.int.to_bytes(16),
            datasets.setdefault(key.dataset, len(datasets)),
            each.run_id.int.to_bytes(16),
            jobs.setdefault(each.job, len(jobs)),
            kinds,
            schema is not None,
            _NO_SCHEMA if schema is None else schema.int.to_bytes(16),
            -1 if each.num_bytes is None else each.num_bytes,
            -1 if each.num_rows is None else each.num_rows,
            -1 if each.num_files is None else each.num_files,
        )

    left = Facts(**{**msgspec.structs.asdict(facts), "inputs": {}, "outputs": {}, "column_lineage": set()})
    for key, read in facts.inputs.items():
        if time_of(key.operation_id) == key.created_at:
            inputs.append(packed(read, 0))
        else:
            left.inputs[key] = read
    for key, written in facts.outputs.items():
        if time_of(key.operation_id) == key.created_at:
            outputs.append(packed(written, written.kinds))
        else:
            left.outputs[key] = written
    rows: dict[bytes, bytes] = {}
    contradicted: set[bytes] = set()
    for each in facts.column_lineage:
        if time_of(each.operation_id) != each.created_at:
            left.column_lineage.add(each)
            continue
        row = _pack_lineage(
            each.operation_id.int.to_bytes(16),
            datasets.setdefault(each.source, len(datasets)),
            datasets.setdefault(each.target, len(datasets)),
            each.fingerprint.int.to_bytes(16),
            each.run_id.int.to_bytes(16),
            jobs.setdefault(each.job, len(jobs)),
        )
        if rows.setdefault(row[:_LINEAGE_KEY_BYTES], row) is not row:
            contradicted.add(row[:16])  # events name two runs or jobs for one use: which counts, facts know
    uses = Uses(list(datasets), list(jobs), b"".join(inputs), b"".join(outputs), b"".join(rows.values()))
    if contradicted:
        left.column_lineage |= {
            each for each in facts.column_lineage if each.operation_id.int.to_bytes(16) in contradicted
        }
        uses.packed_lineage = b"".join([row for row in rows.values() if row[:16] not in contradicted])
    return left, uses
