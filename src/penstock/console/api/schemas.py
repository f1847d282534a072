"""Schemas of the registry: subjects, versions, what changed between two, and compatibility."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from penstock.console.actions import ActionRoute
from penstock.console.asking import NEEDS, FromConsole
from penstock.console.service import Console
from penstock.schemas.client import RegistryClient, client_of
from penstock.schemas.formats import Format, Level
from penstock.schemas.schema import Reference
from penstock.schemas.texts import diff, readable

router = APIRouter(prefix="/schemas", tags=["schemas"], route_class=ActionRoute)
Subject = Annotated[str, Query(min_length=1, max_length=1024, description="The subject, such as orders-value.")]
Version = Annotated[int | None, Query(ge=1, description="A version.")]


class SubjectRow(BaseModel, frozen=True):
    """One line of the list of subjects."""

    subject: str = Field(description="The subject.")
    versions: int = Field(description="How many versions it has.")
    id: int = Field(description="Id of the latest, which records carry.")
    format: Format = Field(description="AVRO, JSON or PROTOBUF.")
    compatibility: Level = Field(description="What a new version must be compatible with.")


class Subjects(BaseModel, frozen=True):
    """Some subjects."""

    registry: str = Field(description="Address of the registry.")
    compatibility: Level = Field(description="The level of every subject that has none of its own.")
    total: int = Field(description="How many subjects match.")
    subjects: list[SubjectRow] = Field(description="Those on this page, by name.")


class SubjectDetail(BaseModel, frozen=True):
    """One version of a subject."""

    subject: str = Field(description="The subject.")
    version: int = Field(description="The version.")
    id: int = Field(description="Its id, which records carry.")
    format: Format = Field(description="AVRO, JSON or PROTOBUF.")
    text: str = Field(description="The schema, indented where it is JSON.")
    references: list[Reference] = Field(description="Schemas that it refers to.")
    versions: list[int] = Field(description="All versions, the oldest first.")
    compatibility: Level = Field(description="What a new version must be compatible with.")
    is_own: bool = Field(description="Whether the subject sets it itself, instead of taking the registry's.")


class Difference(BaseModel, frozen=True):
    """What changed between two versions."""

    first: int = Field(description="A version.")
    second: int = Field(description="The other one.")
    lines: list[str] = Field(description="Lines of a diff; none if nothing did.")


class Compatibility(BaseModel, frozen=True, extra="forbid"):
    """What new versions must be compatible with."""

    subject: str | None = Field(None, max_length=1024, description="The subject; the whole registry if left out.")
    level: Level = Field(description="NONE, BACKWARD, FORWARD, FULL, or one of these _TRANSITIVE.")


def _client(console: Console) -> RegistryClient:
    return client_of(console.settings.registry())


@router.get("", summary="List subjects", dependencies=NEEDS["viewer"])
def list_subjects(
    console: FromConsole,
    search: Annotated[str, Query(max_length=1024, description="Part of the name.")] = "",
    page: Annotated[int, Query(ge=0, description="Page, from 0.")] = 0,
    size: Annotated[int, Query(ge=1, le=100, description="Subjects on a page.")] = 25,
) -> Subjects:
    """Return subjects; the registry is asked about those on the page alone, however many there are."""
    client = _client(console)
    fitting = [each for each in client.subjects() if search.lower() in each.lower()]
    rows = []
    for subject in fitting[page * size : (page + 1) * size]:
        latest = client.version(subject)
        rows.append(
            SubjectRow(
                subject=subject,
                versions=len(client.versions(subject)),
                id=latest.id,
                format=latest.definition.format,
                compatibility=client.compatibility(subject)[0],
            )
        )
    return Subjects(
        registry=str(client.registry), compatibility=client.compatibility()[0], total=len(fitting), subjects=rows
    )


@router.get("/subject", summary="One version of a subject", dependencies=NEEDS["viewer"])
def get_subject(console: FromConsole, subject: Subject, version: Version = None) -> SubjectDetail:
    """Return a schema, the latest if no version is named."""
    client = _client(console)
    found = client.version(subject, version)
    level, is_own = client.compatibility(subject)
    return SubjectDetail(
        subject=subject,
        version=found.version,
        id=found.id,
        format=found.definition.format,
        text=readable(found.definition),
        references=list(found.definition.references),
        versions=client.versions(subject),
        compatibility=level,
        is_own=is_own,
    )


@router.get("/diff", summary="What changed between two versions", dependencies=NEEDS["viewer"])
def get_diff(console: FromConsole, subject: Subject, first: Version = None, second: Version = None) -> Difference:
    """Compare two versions, the last two if none is named."""
    numbers, lines = diff(_client(console), subject, first, second)
    return Difference(first=numbers[0], second=numbers[1], lines=lines)


@router.put("/compatibility", summary="Set compatibility", dependencies=NEEDS["admin"])
def put_compatibility(console: FromConsole, wanted: Compatibility) -> Compatibility:
    """Set the compatibility of a subject, or of all subjects that have none of their own."""
    client = _client(console)
    client.set_compatibility(wanted.level, wanted.subject)
    return Compatibility(subject=wanted.subject, level=client.compatibility(wanted.subject)[0])
