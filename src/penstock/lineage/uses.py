"""Operations and what they read and wrote, as rows and columns: the most of what events say, and all of one shape.

Only what says its own time is here: an operation whose id is a UUIDv7, which holds that time, and its uses in the first
hour. Any other stays a fact. Guarantee: `put_back` gives the very facts that `taken` took. To make objects of tens of
thousands, and rows of those, takes a driver longer than all the rest; as columns they are numbered and sent.
"""

import struct
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import numpy.typing as npt

from penstock.lineage import operation_rows
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


class Operations(msgspec.Struct, array_like=True):
    """The operations of one task, each once, as `operation_rows` has them."""

    packed_ids: bytes
    packed_sizes: bytes
    packed_rows: bytes

    @property
    def ids(self) -> npt.NDArray[np.void]:
        """Their ids."""
        return np.frombuffer(self.packed_ids, "V16")

    @property
    def rows(self) -> list[bytes]:
        """Their rows."""
        ends = np.cumsum(np.frombuffer(self.packed_sizes, np.int64)).tolist()
        return [self.packed_rows[begin:end] for begin, end in pairwise([0, *ends])]


class Uses(msgspec.Struct, array_like=True):
    """The operations of one task and their uses, each once. Datasets and jobs go by their place in the lists."""

    datasets: list[DatasetKey]
    jobs: list[JobKey]
    packed_inputs: bytes
    packed_outputs: bytes
    packed_lineage: bytes
    done: Operations

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
        used = (self.inputs, self.outputs, self.column_lineage)
        return {each for rows in used for each in rows["operation"].tolist()}.union(self.done.ids.tolist())

    def put_back(self, facts: Facts, ids: Collection[bytes]) -> "Uses":
        """Add what operations of these ids did to the facts; return the others."""
        kept: list[bytes] = []
        for rows, add in (
            (self.inputs, self._add_input),
            (self.outputs, self._add_output),
            (self.column_lineage, self._add_lineage),
        ):
            taken = np.array([each in ids for each in rows["operation"].tolist()], bool)
            for row in rows[taken].tolist():
                add(facts, row)
            kept.append(rows[~taken].tobytes())
        done: dict[bytes, bytes] = {}
        for id_, row in zip(self.done.ids.tolist(), self.done.rows, strict=True):
            if id_ in ids:
                operation = operation_rows.unpacked(row)
                put(facts.operations, operation.id, operation)
            else:
                done[id_] = row
        inputs, outputs, lineage = kept
        return Uses(self.datasets, self.jobs, inputs, outputs, lineage, _operations(done))

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


def _operations(rows: Mapping[bytes, bytes]) -> Operations:
    """Return rows by their ids."""
    sizes = np.fromiter(map(len, rows.values()), np.int64, len(rows))
    return Operations(b"".join(rows), sizes.tobytes(), b"".join(rows.values()))


def taken(facts: Facts) -> tuple[Facts, Uses]:
    """Split facts into those that stay, and operations with their uses."""
    datasets: dict[DatasetKey, int] = {}
    jobs: dict[JobKey, int] = {}

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

    emptied: dict[str, Any] = {"operations": {}, "inputs": {}, "outputs": {}, "column_lineage": set()}
    left = Facts(**{**msgspec.structs.asdict(facts), **emptied})
    done: dict[bytes, bytes] = {}
    for id_, operation in facts.operations.items():
        if time_of(id_) is None:
            left.operations[id_] = operation
        else:
            done[id_.int.to_bytes(16)] = operation_rows.packed(operation)
    inputs: list[bytes] = []
    for key, read in facts.inputs.items():
        if time_of(key.operation_id) == key.created_at:
            inputs.append(packed(read, 0))
        else:
            left.inputs[key] = read
    outputs: list[bytes] = []
    for key, written in facts.outputs.items():
        if time_of(key.operation_id) == key.created_at:
            outputs.append(packed(written, written.kinds))
        else:
            left.outputs[key] = written
    lineage = _taken_lineage(facts, left, datasets, jobs)
    return left, Uses(
        list(datasets), list(jobs), b"".join(inputs), b"".join(outputs), b"".join(lineage), _operations(done)
    )


def _taken_lineage(
    facts: Facts, left: Facts, datasets: dict[DatasetKey, int], jobs: dict[JobKey, int]
) -> Iterable[bytes]:
    """Return the rows of column lineage, and leave what else there is."""
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
    if not contradicted:
        return rows.values()
    left.column_lineage |= {each for each in facts.column_lineage if each.operation_id.int.to_bytes(16) in contradicted}
    return [row for row in rows.values() if row[:16] not in contradicted]
