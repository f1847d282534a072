"""A schema as a registry keeps it: its text, its format, and the schemas that it refers to."""

from pydantic import BaseModel, Field

from penstock.schemas.formats import Format


class Reference(BaseModel, frozen=True):
    """Another schema that a schema refers to."""

    name: str = Field(description="The name by which it is referred to.")
    subject: str = Field(description="The subject that holds it.")
    version: int = Field(description="Its version there.")


class Schema(BaseModel, frozen=True):
    """The schema of a record, in one of three formats."""

    text: str = Field(description="The schema, as it was written.")
    format: Format = Field("AVRO", description="The language that it is written in.")
    references: tuple[Reference, ...] = Field((), description="Other schemas that it refers to.")


class SchemaVersion(BaseModel, frozen=True):
    """A schema under its subject."""

    subject: str = Field(description="The name that its versions share.")
    version: int = Field(description="Counts from 1.")
    id: int = Field(description="The number that records carry.")
    definition: Schema = Field(description="What it says.")
