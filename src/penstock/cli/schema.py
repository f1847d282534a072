"""penstock schema: the schemas of a registry, who can still read them, and what a change would break."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from penstock.cli.output import Json, Yes, confirm, print_json, print_lines, print_table, say
from penstock.cli.session import session
from penstock.errors import BadInput, NotFound
from penstock.schemas.formats import Format, Level
from penstock.wording import plural

if TYPE_CHECKING:
    from penstock.schemas.client import RegistryClient
    from penstock.schemas.schema import Reference, Schema

app = typer.Typer(help="Schemas in a schema registry.", no_args_is_help=True)

Subject = Annotated[str, typer.Argument(help="The subject, such as orders-value for the values of the topic orders.")]
File = Annotated[Path, typer.Argument(help="File with the schema: .avsc, .proto or .json, unless --format says.")]
Address = Annotated[
    str | None, typer.Option("--registry", help="Address of the registry; that of the project if left out.")
]
Formatted = Annotated[
    Format | None, typer.Option("--format", help="What the schema is written in; by the file's name.")
]
References = Annotated[
    list[str] | None,
    typer.Option("--reference", help="A schema that it refers to, NAME=SUBJECT or NAME=SUBJECT:VERSION."),
]


@app.command("list")
def list_(context: typer.Context, registry: Address = None, as_json: Json = False) -> None:
    """List subjects: how many versions, and the id of the latest."""
    client = _client(context, registry)
    found = []
    for subject in client.subjects():
        latest = client.version(subject)
        found.append(
            {
                "subject": subject,
                "versions": len(client.versions(subject)),
                "id": latest.id,
                "format": latest.definition.format,
                "compatibility": client.compatibility(subject)[0],
            }
        )
    if as_json:
        print_json(found)
    elif not found:
        say(f"no subjects in {client.registry}")
    else:
        print_table(list(found[0]), [list(each.values()) for each in found])


@app.command()
def show(
    context: typer.Context,
    subject: Annotated[str | None, typer.Argument(help="The subject; none with --id.")] = None,
    version: Annotated[int | None, typer.Option(min=1, help="The version; the latest if left out.")] = None,
    schema_id: Annotated[int | None, typer.Option("--id", min=0, help="The id that records carry.")] = None,
    registry: Address = None,
    as_json: Json = False,
) -> None:
    """Print a schema, by subject and version or by its id."""
    from penstock.schemas.texts import readable

    if (subject is None) == (schema_id is None) or (schema_id is not None and version is not None):
        raise BadInput("name a subject, and a version of it if you like, or give --id")
    client = _client(context, registry)
    head: dict[str, str | int]
    if schema_id is not None:
        found = client.schema(schema_id)
        head = {"id": schema_id}
    else:
        known = client.version(subject or "", version)
        found = known.definition
        head = {"subject": known.subject, "version": known.version, "id": known.id}
    if as_json:
        print_json({**head, **found.model_dump()})
        return
    say(", ".join(f"{name} {value}" for name, value in {**head, "format": found.format}.items()))
    for each in found.references:
        say(f"refers to {each.name}: {each.subject}, version {each.version}")
    print_lines([readable(found)])


@app.command()
def register(
    context: typer.Context,
    subject: Subject,
    file: File,
    format_: Formatted = None,
    reference: References = None,
    registry: Address = None,
    as_json: Json = False,
) -> None:
    """Add a schema to a subject; one that breaks whom the subject's compatibility protects is refused."""
    client = _client(context, registry)
    schema = _from_file(file, format_, reference, client)
    there = client.find(subject, schema)
    schema_id = client.register(subject, schema)
    known = there or client.find(subject, schema)
    version = known.version if known is not None else None
    if as_json:
        print_json({"subject": subject, "version": version, "id": schema_id, "is_new": there is None})
    elif there is not None:
        say(f"'{subject}' has this schema already: version {version}, id {schema_id}")
    else:
        say(f"registered as version {version} of '{subject}', id {schema_id}")


@app.command()
def check(
    context: typer.Context,
    subject: Subject,
    file: File,
    format_: Formatted = None,
    reference: References = None,
    registry: Address = None,
    as_json: Json = False,
) -> None:
    """Say before registering whom a schema would break, and at which field; exit code 1 if it would."""
    from dataclasses import asdict

    from penstock.schemas.compatibility import check as checked

    client = _client(context, registry)
    schema = _from_file(file, format_, reference, client)
    try:
        verdict = checked(client, subject, schema)
    except NotFound:
        if subject in client.subjects():
            raise
        say(f"'{subject}' is new: any schema will do")
        if as_json:
            print_json({"subject": subject, "is_compatible": True, "breakages": [], "said": []})
        return
    if as_json:
        print_json(asdict(verdict))
    else:
        breaks = "may break" if verdict.is_compatible else "breaks"
        for each in verdict.breakages:
            say(f"{breaks} {each.whom}: {each.field}: {each.why}")
        for line in () if verdict.breakages else verdict.said:
            say(f"the registry says: {line}")
        would = "would take" if verdict.is_compatible else "would not take"
        say(f"'{subject}', which asks for {verdict.level}, {would} this schema")
    if not verdict.is_compatible:
        raise typer.Exit(1)


@app.command()
def diff(
    context: typer.Context,
    subject: Subject,
    first: Annotated[int | None, typer.Argument(min=1, help="A version; the one before the latest.")] = None,
    second: Annotated[int | None, typer.Argument(min=1, help="Another one; the latest.")] = None,
    registry: Address = None,
    as_json: Json = False,
) -> None:
    """Show what changed between two versions of a subject."""
    from penstock.schemas.texts import diff as compared

    numbers, lines = compared(_client(context, registry), subject, first, second)
    if as_json:
        print_json({"subject": subject, "versions": numbers, "diff": lines})
    elif not lines:
        say(f"versions {numbers[0]} and {numbers[1]} of '{subject}' are the same")
    else:
        print_lines(lines)


@app.command()
def compatibility(
    context: typer.Context,
    subject: Annotated[str | None, typer.Argument(help="The subject; the whole registry if left out.")] = None,
    level: Annotated[Level | None, typer.Option("--set", help="Ask new versions for this from now on.")] = None,
    registry: Address = None,
    as_json: Json = False,
) -> None:
    """Show or set which other versions a new one must be compatible with."""
    client = _client(context, registry)
    if level is not None:
        client.set_compatibility(level, subject)
    found, is_own = client.compatibility(subject)
    if as_json:
        print_json({"subject": subject, "compatibility": found, "is_own": is_own})
        return
    whose = f"'{subject}'" if subject and is_own else f"'{subject}', from the registry" if subject else "the registry"
    say(f"{found} for {whose}. The levels: {', '.join(get_args(Level))}")


@app.command()
def delete(
    context: typer.Context,
    subject: Subject,
    version: Annotated[int | None, typer.Option(min=1, help="Only this version.")] = None,
    permanent: Annotated[
        bool, typer.Option("--permanent", help="For good: records that carry the id cannot be read any more.")
    ] = False,
    yes: Yes = False,
    registry: Address = None,
    as_json: Json = False,
) -> None:
    """Delete a subject or one version of it; the ids stay known unless it is --permanent."""
    client = _client(context, registry)
    versions = client.versions(subject)
    if version is not None and version not in versions:
        raise NotFound(f"'{subject}' has no version {version}; it has {', '.join(map(str, versions))}")
    what = f"version {version} of '{subject}'" if version else f"'{subject}' with {plural(len(versions), 'version')}"
    after = "Records with its id cannot be read any more" if permanent else "Records with its id can still be read"
    confirm(f"Delete {what}? {after}.", yes=yes)
    deleted = client.delete(subject, version)
    if permanent:
        client.delete(subject, version, permanent=True)
    if as_json:
        print_json({"subject": subject, "deleted": deleted, "permanent": permanent})
    else:
        say(f"deleted {what}")


def _client(context: typer.Context, address: str | None) -> "RegistryClient":
    """Return the client of the registry that is meant."""
    from penstock.schemas.client import client_of

    return client_of(session(context).settings.registry(address))


def _from_file(file: Path, format_: Format | None, references: list[str] | None, client: "RegistryClient") -> "Schema":
    """Read a schema from a file, and find what it refers to."""
    from penstock.schemas.serializer import opened, read_schema

    found = read_schema(file, format_, tuple(_reference(each, client) for each in references or ()))
    if found.format == "AVRO":
        opened(client, found)  # says what is wrong where Apicurio says that it cannot "discover artifact type"
    return found


def _reference(text: str, client: "RegistryClient") -> "Reference":
    from penstock.schemas.schema import Reference

    name, sign, target = text.partition("=")
    subject, colon, version = target.rpartition(":")
    if not colon:
        subject, version = target, ""
    if not sign or not name or not subject or (version and not version.isdecimal()):
        raise BadInput(f"--reference takes NAME=SUBJECT or NAME=SUBJECT:VERSION, and '{text}' is not that")
    number = int(version) if version else client.version(subject).version
    return Reference(name=name, subject=subject, version=number)
