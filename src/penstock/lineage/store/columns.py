"""The types of the store's columns, the same in Python whichever database it is."""

import datetime
from typing import Any

from sqlalchemy import BigInteger, DateTime, Dialect, Integer, SmallInteger, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import JSON, TypeDecorator, TypeEngine

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_US = datetime.timedelta(microseconds=1)

BigId = BigInteger().with_variant(Integer, "sqlite")
"""An id that the database counts up; SQLite does so for its INTEGER only, which has 64 bits, too."""
JsonValue = JSON().with_variant(JSONB(), "postgresql")
Flags = Integer
Small = SmallInteger
String = Text().with_variant(Text(collation="C"), "postgresql")
"""Of any length, and compared by code point, as in Python and SQLite: everywhere the same one of two is the greater."""


def to_us(moment: datetime.datetime) -> int:
    """Return microseconds since 1970, in UTC."""
    return (moment - _EPOCH) // _US


def from_us(moment_us: int) -> datetime.datetime:
    """Return the time, in UTC."""
    return _EPOCH + moment_us * _US


class Moment(TypeDecorator[datetime.datetime]):
    """A time in UTC: `timestamptz` in PostgreSQL, and microseconds since 1970 in SQLite, which has no type for it."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Choose the database's own type."""
        return dialect.type_descriptor(Integer() if dialect.name == "sqlite" else DateTime(timezone=True))

    def process_bind_param(self, value: datetime.datetime | None, dialect: Dialect) -> Any:
        """Return what the database keeps."""
        return to_us(value) if value is not None and dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime.datetime | None:
        """Return a time in UTC."""
        if value is None:
            return None
        found: datetime.datetime = from_us(value) if dialect.name == "sqlite" else value.astimezone(datetime.UTC)
        return found
