"""Which of a pipeline's types a column of a Delta table accepts, although it has another."""

import pyarrow as pa

_WIDTHS: tuple[pa.DataType, ...] = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


def holds(there: pa.DataType, ours: pa.DataType) -> bool:
    """Return whether every value of ours is the same as one of the column's type."""
    if ours in _WIDTHS and there in _WIDTHS:
        return _WIDTHS.index(ours) < _WIDTHS.index(there)
    if pa.types.is_decimal(there) and pa.types.is_decimal(ours):
        more = there.scale - ours.scale
        return bool(more >= 0 and there.precision - ours.precision >= more)
    if pa.types.is_nested(there):
        return _differ_by_nulls(there, ours)
    return there == pa.float64() and ours in {pa.float32(), *_WIDTHS[:3]}


def _differ_by_nulls(there: pa.DataType, ours: pa.DataType) -> bool:
    """Return whether nested types are the same but for nulls inside that only the column's may have."""
    if there.id != ours.id:
        return False
    if pa.types.is_struct(there):
        return there.names == ours.names and all(map(_takes, there, ours))
    if pa.types.is_map(there):
        return _takes(there.key_field, ours.key_field) and _takes(there.item_field, ours.item_field)
    return _takes(there.value_field, ours.value_field)


def _takes(there: pa.Field, ours: pa.Field) -> bool:
    same = there.type == ours.type or (pa.types.is_nested(there.type) and _differ_by_nulls(there.type, ours.type))
    return same and (there.nullable or not ours.nullable)


def never(_there: pa.DataType, _ours: pa.DataType) -> bool:
    """Return False: the library that commits cannot write tables with type widening."""
    return False
