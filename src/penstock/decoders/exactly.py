"""Times and numbers without rounding: a value that a column cannot hold exactly fails."""

import datetime
import re
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa

from penstock.record.decoded import FLOAT_END

_BEYOND_MICROSECONDS = re.compile(r"\.\d{6}\d*[1-9]")


class _ExactType(type):
    """Lets msgspec pass a value to `exact` and use its result."""

    kind: type

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.kind)


class _Moment(metaclass=_ExactType):
    kind = datetime.datetime
    accepted: Any = Annotated[datetime.datetime, msgspec.Meta(tz=True)]


class _NaiveMoment(metaclass=_ExactType):
    kind = datetime.datetime
    accepted: Any = Annotated[datetime.datetime, msgspec.Meta(tz=False)]


class _Double(metaclass=_ExactType):
    kind = float
    accepted: Any = float


class _Float(metaclass=_ExactType):
    kind = float
    accepted: Any = Annotated[float, msgspec.Meta(gt=-FLOAT_END, lt=FLOAT_END)]


def exact_type(kind: pa.DataType) -> type | None:
    """Return the type that msgspec checks against; None if it takes nothing but what fits by itself."""
    if pa.types.is_timestamp(kind):
        return _Moment if kind.tz else _NaiveMoment
    return {pa.float64(): _Double, pa.float32(): _Float}.get(kind)


def exact(kind: Any, value: Any) -> Any:
    """Convert a value to one of these types; raise if a part of it would be lost or guessed."""
    try:
        found = msgspec.convert(value, kind.accepted)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None  # so that msgspec says where
    if isinstance(value, str) and _BEYOND_MICROSECONDS.search(value):
        raise ValueError("the time has digits beyond the microsecond")
    if isinstance(value, int) and int(np.float32(found) if kind is _Float else found) != value:
        raise ValueError(f"the integer cannot be held exactly in {32 if kind is _Float else 64} bits")
    return found
