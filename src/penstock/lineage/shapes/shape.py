"""What all answers have in common."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def without_nul(value: str) -> str:
    """Refuse what PostgreSQL has no text for."""
    if "\x00" in value:
        raise ValueError("a text has no NUL")
    return value


StoredText = Annotated[str, Field(max_length=1024), AfterValidator(without_nul)]
"""A text that both databases can keep, and look for."""


class Shape(BaseModel):
    """Part of an answer: frozen, and written with the names that clients know."""

    model_config = ConfigDict(frozen=True, populate_by_name=True, serialize_by_alias=True)
