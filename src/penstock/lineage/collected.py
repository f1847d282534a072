"""The facts of many events together, each thing once: what tasks stage, and the driver merges into the store."""

import datetime
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar, get_type_hints
from uuid import UUID

import msgspec

from penstock.lineage.facts import (
    ColumnLineage,
    ColumnRelation,
    Dataset,
    DatasetSchema,
    DatasetTag,
    Facet,
    Input,
    IoKey,
    Job,
    JobDependency,
    JobTag,
    Location,
    Operation,
    Output,
    Run,
    Symlink,
)
from penstock.lineage.keys import DatasetKey, JobKey, LocationKey

Value = TypeVar("Value")


class Facts(msgspec.Struct):
    """All facts of some events, each once. Whatever a key refers to is included, too: no key dangles."""

    locations: dict[LocationKey, Location] = msgspec.field(default_factory=dict)
    datasets: dict[DatasetKey, Dataset] = msgspec.field(default_factory=dict)
    symlinks: set[Symlink] = msgspec.field(default_factory=set)
    schemas: dict[UUID, bytes] = msgspec.field(default_factory=dict)
    """The fields as JSON (`[{name, type?, description?, fields?}]`), by their digest."""
    dataset_schemas: dict[tuple[DatasetKey, UUID], DatasetSchema] = msgspec.field(default_factory=dict)
    dataset_tags: set[DatasetTag] = msgspec.field(default_factory=set)
    jobs: dict[JobKey, Job] = msgspec.field(default_factory=dict)
    dependencies: set[JobDependency] = msgspec.field(default_factory=set)
    job_tags: set[JobTag] = msgspec.field(default_factory=set)
    users: set[str] = msgspec.field(default_factory=set)
    runs: dict[UUID, Run] = msgspec.field(default_factory=dict)
    """A run that is only named as a parent is here, too, with what is known of it."""
    operations: dict[UUID, Operation] = msgspec.field(default_factory=dict)
    inputs: dict[IoKey, Input] = msgspec.field(default_factory=dict)
    outputs: dict[IoKey, Output] = msgspec.field(default_factory=dict)
    column_lineage: set[ColumnLineage] = msgspec.field(default_factory=set)
    column_relations: dict[UUID, tuple[ColumnRelation, ...]] = msgspec.field(default_factory=dict)
    run_facets: dict[tuple[UUID, str], Facet] = msgspec.field(default_factory=dict)
    """By run or operation and the facet's name."""
    job_facets: dict[tuple[JobKey, str], Facet] = msgspec.field(default_factory=dict)
    dataset_facets: dict[tuple[DatasetKey, str], Facet] = msgspec.field(default_factory=dict)
    """Those of inputs and outputs, too."""

    def merge(self, other: "Facts") -> None:
        """Take in what the other says, too. The other stays as it is."""
        for name in _MERGED:
            into, theirs = getattr(self, name), getattr(other, name)
            both = into | theirs
            if len(both) == len(into) + len(theirs):  # as of most kinds; to look for each key takes ten times as long
                setattr(self, name, both)
                continue
            for key, value in theirs.items():
                put(into, key, value)
        for name in _UNITED:
            getattr(self, name).update(getattr(other, name))


_MERGED = (
    "locations",
    "datasets",
    "dataset_schemas",
    "jobs",
    "runs",
    "operations",
    "inputs",
    "outputs",
    "run_facets",
    "job_facets",
    "dataset_facets",
)
_UNITED = (
    "symlinks",
    "schemas",  # these two are named by their content
    "column_relations",
    "dataset_tags",
    "dependencies",
    "job_tags",
    "users",
    "column_lineage",
)

_KEYS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("locations", "datasets", "jobs", "inputs", "outputs"), attrgetter("key")),
    **dict.fromkeys(("runs", "operations"), attrgetter("id")),
    "dataset_schemas": attrgetter("dataset", "digest"),
}
"""The dictionaries whose keys are parts of their values, and which."""
_VALUES = {
    "locations": list[Location],
    "datasets": list[Dataset],
    "jobs": list[Job],
    "inputs": list[Input],
    "outputs": list[Output],
    "runs": list[Run],
    "operations": list[Operation],
    "dataset_schemas": list[DatasetSchema],
}
_others = {name: kind for name, kind in get_type_hints(Facts).items() if name not in _KEYS}
_Packed = msgspec.defstruct("_Packed", [*_VALUES.items(), *_others.items()], array_like=True, gc=False)
"""Facts without the keys that their values have: each would be read twice."""

_encoder = msgspec.msgpack.Encoder(uuid_format="bytes")
_decoder = msgspec.msgpack.Decoder(_Packed)


def packed(facts: Facts) -> bytes:
    """Return the facts as bytes, for staging."""
    values = {name: list(getattr(facts, name).values()) for name in _VALUES}
    return _encoder.encode(_Packed(**values, **{name: getattr(facts, name) for name in _others}))


def unpacked(data: bytes) -> Facts:
    """Return the facts that `packed` made these bytes of."""
    found = _decoder.decode(data)
    made: dict[str, Any] = {name: {key(each): each for each in getattr(found, name)} for name, key in _KEYS.items()}
    return Facts(**made, **{name: getattr(found, name) for name in _others})


def put_facet(into: dict[Any, Facet], key: Any, seen_at: datetime.datetime, value: bytes) -> None:
    """Add a facet, unless a later one of the same key is there: most replace the one of the event before."""
    there = into.get(key)
    if there is None or (seen_at, value) > (there.seen_at, there.value):
        into[key] = Facet(seen_at, value)


def put(into: dict[Any, Value], key: Any, value: Value) -> None:
    """Add something to one of the dictionaries of `Facts`, merged with what is there of the same key."""
    there = into.setdefault(key, value)
    if there is not value and there != value:
        into[key] = there.merge(value)  # type: ignore[attr-defined]
