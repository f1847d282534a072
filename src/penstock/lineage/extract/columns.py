"""Schemas and column lineage: what is long, and the same in event after event, is read once."""

from functools import lru_cache
from typing import NamedTuple
from uuid import UUID, uuid5

import msgspec

from penstock.lineage.extract import facets
from penstock.lineage.facts import ColumnRelation, ColumnUse

_SCHEMAS = UUID("5f0c6f7c-9a0f-4d43-8a2e-0f6d0f2b1a01")
_RELATIONS = UUID("5f0c6f7c-9a0f-4d43-8a2e-0f6d0f2b1a02")
_CACHED = 4_000
_DEEPEST = 50

_USES = {
    "IDENTITY": ColumnUse.IDENTITY,
    "TRANSFORMATION": ColumnUse.TRANSFORMATION,
    "MASKED": ColumnUse.TRANSFORMATION_MASKING,
    "AGGREGATION": ColumnUse.AGGREGATION,
    "FILTER": ColumnUse.FILTER,
    "JOIN": ColumnUse.JOIN,
    "GROUP_BY": ColumnUse.GROUP_BY,
    "SORT": ColumnUse.SORT,
    "WINDOW": ColumnUse.WINDOW,
    "CONDITIONAL": ColumnUse.CONDITIONAL,
}
_MASKED_USES = {
    "IDENTITY": ColumnUse.TRANSFORMATION_MASKING,
    "TRANSFORMATION": ColumnUse.TRANSFORMATION_MASKING,
    "AGGREGATION": ColumnUse.AGGREGATION_MASKING,
}


class Schema(NamedTuple):
    """Columns of a dataset."""

    digest: UUID
    """Of the columns: the same columns always have the same."""
    columns: bytes
    """As JSON."""


class Relations(NamedTuple):
    """The columns of one source that a target uses."""

    namespace: str
    name: str
    fingerprint: UUID
    """Of the relations: the same relations always have the same."""
    relations: tuple[ColumnRelation, ...]


@lru_cache(_CACHED)
def schema(facet: bytes) -> Schema | None:
    """Return the columns that a schema facet lists, without what is empty; None if it lists none.

    Raise `msgspec.ValidationError` if fields nest deeper than any answer could.
    """
    fields = _trimmed(msgspec.json.decode(facet, type=facets.Schema).fields)
    if fields is None:
        return None
    columns = msgspec.json.encode(fields)
    return Schema(uuid5(_SCHEMAS, columns.decode()), columns)


def _trimmed(fields: list[facets.SchemaField] | None, depth: int = 1) -> list[facets.SchemaField] | None:
    if not fields:
        return None
    if depth > _DEEPEST:
        raise msgspec.ValidationError(f"fields are more than {_DEEPEST} deep")
    return [
        facets.SchemaField(
            each.name, each.type or None, (each.description or "").strip() or None, _trimmed(each.fields, depth + 1)
        )
        for each in fields
    ]


@lru_cache(_CACHED)
def relations(facet: bytes) -> tuple[Relations, ...]:
    """Return what a column lineage facet says, for each source."""
    lineage = msgspec.json.decode(facet, type=facets.ColumnLineage)
    found: dict[tuple[str, str], dict[tuple[str, str | None], int]] = {}

    def use(reference: facets.ColumnReference, target: str | None, kind: int) -> None:
        columns = found.setdefault((reference.namespace, reference.name), {})
        key = (reference.field, target)
        columns[key] = columns.get(key, 0) | kind

    for target, sources in lineage.fields.items():
        for reference in sources.input_fields:
            for each in reference.transformations or [_older(sources)]:
                use(reference, None if each.type == "INDIRECT" else target, _use(each))
    for reference in lineage.dataset or ():
        for each in reference.transformations or [facets.Transformation("INDIRECT")]:
            use(reference, None, _use(each))
    return tuple(_of_source(*source, columns) for source, columns in sorted(found.items()))


def _of_source(namespace: str, name: str, columns: dict[tuple[str, str | None], int]) -> Relations:
    sorted_columns = sorted(columns.items(), key=lambda each: (each[0][0], each[0][1] or ""))
    listed = tuple(ColumnRelation(source, target, int(uses)) for (source, target), uses in sorted_columns)
    return Relations(namespace, name, uuid5(_RELATIONS, msgspec.json.encode(listed).decode()), listed)


def _older(sources: facets.ColumnSources) -> facets.Transformation:
    """Return what producers said before there were transformations."""
    kind = (sources.transformation_type or "").upper()
    return facets.Transformation("INDIRECT" if kind == "INDIRECT" else "DIRECT", kind)


def _use(transformation: facets.Transformation) -> int:
    kind = (transformation.subtype or "").upper()
    if transformation.masking and kind in _MASKED_USES:
        return _MASKED_USES[kind]
    return _USES.get(kind, ColumnUse.UNKNOWN)
