"""What the commands that ask have in common: whom, about what, and about which time."""

import datetime
import functools
import inspect
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from penstock.cli.lineage.common import CaOption, PasswordOption, StoreOption, store_address
from penstock.errors import BadInput, NotFound

if TYPE_CHECKING:
    from penstock.lineage.questions import Questions
    from penstock.lineage.shapes.search import SearchResult
    from penstock.lineage.subjects import Subject

TOKEN_VARIABLE = "PENSTOCK_LINEAGE_TOKEN"  # noqa: S105 - the name of a variable
_KINDS: tuple[Literal["DATASET", "JOB"], ...] = ("DATASET", "JOB")
_MOST_PAGES = 20
_MOST_NAMED = 8

What = Annotated[
    str,
    typer.Argument(
        help="Name of a dataset or a job, or its end; dataset:NUMBER, job:NUMBER; id of a run or operation."
    ),
]
Since = Annotated[str, typer.Option(help="Only what happened since: 30d, 12h, or a time such as 2026-03-01T12:00Z.")]
Until = Annotated[str, typer.Option(help="Only what happened until then.", show_default="now")]
Url = Annotated[
    str,
    typer.Option(envvar="PENSTOCK_LINEAGE_URL", help="Ask a service that penstock lineage serve runs, not a store."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(help=f"File with a personal token for --url; {TOKEN_VARIABLE} if left out.", show_default=False),
]


@contextmanager
def _questions(
    context: typer.Context, store: str, password: str, ca_file: str, url: str, token_file: Path | None
) -> Iterator["Questions"]:
    """Yield whom to ask: the service at an address, or the store."""
    from penstock.lineage import questions as asked
    from penstock.secret import Secret

    if not url:
        address = store_address(context, store, password, ca_file)
        with asked.of_store(address) as found:
            yield found
        return
    if store:
        raise BadInput("give --store or --url, not both")
    token = None
    if token_file is not None:
        token = Secret.parse(f"file:{token_file}")
    elif os.environ.get(TOKEN_VARIABLE):
        token = Secret.parse(f"env:{TOKEN_VARIABLE}")
    yield asked.Service(url, token)


def asks(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say whom to ask to a command, and call it with the answer in their place, as `asked`."""

    def run(
        context: typer.Context,
        url: Url = "",
        token_file: TokenFile = None,
        store: StoreOption = "",
        password: PasswordOption = "",
        ca_file: CaOption = "",
        **own: Any,
    ) -> None:
        with _questions(context, store, password, ca_file, url, token_file) as asked:
            command(asked, **own)

    context, *shared, _ = inspect.signature(run).parameters.values()
    _, *own, as_json = inspect.signature(command).parameters.values()
    made: Any = functools.update_wrapper(run, command)
    made.__annotations__ = {}  # Typer reads those of the signature
    made.__signature__ = inspect.Signature([context, *own, *shared, as_json])
    return run


def moment_of(text: str, option: str) -> datetime.datetime:
    """Read a time, or how long ago it was."""
    from penstock.clock import clock
    from penstock.quantities import parse_duration_ms

    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        try:
            return clock().now() - datetime.timedelta(milliseconds=parse_duration_ms(text))
        except (ValueError, OverflowError):
            raise BadInput(f"{option} is a time such as 2026-03-01T12:00Z, or how long ago: 30d, 12h") from None
    return found.replace(tzinfo=datetime.UTC) if found.tzinfo is None else found


def window(since: str, until: str) -> dict[str, Any]:
    """Return both ends of the time that is asked about."""
    ends = {"since": moment_of(since, "--since"), "until": moment_of(until, "--until") if until else None}
    if ends["until"] is not None and ends["since"] is not None and ends["since"] >= ends["until"]:
        raise BadInput("--since is before --until")
    return ends


def subject(asked: "Questions", what: str) -> "Subject":
    """Find what is meant; raise `NotFound` if nothing is, and `BadInput` with the candidates if several are."""
    from penstock.lineage.subjects import Subject

    kind, _, number = what.partition(":")
    if kind in {"dataset", "job"} and number.isdigit():
        return Subject("DATASET" if kind == "dataset" else "JOB", int(number), what)
    try:
        run_id = uuid.UUID(what)
    except ValueError:
        return _named(asked, what)
    from penstock.lineage.shapes.parameters import RunsQuery

    found = asked.runs(RunsQuery(run_id=[run_id]))
    return Subject("RUN" if found.items else "OPERATION", run_id, what)


def _named(asked: "Questions", what: str) -> "Subject":
    """Look for a whole name first, then for the end of a path or of a dotted name; datasets come before jobs."""
    from penstock.lineage.shapes.parameters import SearchParameters
    from penstock.lineage.subjects import Subject

    if len(what) < 3:  # noqa: PLR2004 - what a search takes
        raise BadInput(f"'{what}' is too short a name to look for", fix="Say dataset:NUMBER or job:NUMBER")
    text = what.partition("://")[2].partition("/")[2] or what  # of an address, only the name is looked for
    known = []
    for page in range(1, _MOST_PAGES + 1):
        found = asked.search(SearchParameters(search_query=text, kind=["DATASET", "JOB"], page=page, page_size=50))
        known += found.items
        if not found.meta.has_next:
            break
    wanted = what.lower()
    ways = (
        [each for each in known if wanted in _addresses(each)],
        [each for each in known if each.name.lower() == wanted],
        [each for each in known if each.name.lower().endswith((f"/{wanted}", f".{wanted}"))],
    )
    for way in ways:
        for kind in _KINDS:
            matching = [each for each in way if each.kind == kind]
            if len(matching) == 1:
                return Subject(kind, int(matching[0].id), matching[0].name)
            if matching:
                named = ", ".join(f"{kind.lower()}:{each.id} in {each.context}" for each in matching[:_MOST_NAMED])
                raise BadInput(f"'{what}' is the name of several: {named}", fix="Say which, such as dataset:NUMBER")
    near = ", ".join(each.name for each in known[:_MOST_NAMED])
    raise NotFound(
        f"no dataset and no job is called '{what}'",
        safe=f"Names with it: {near}" if near else "",
        fix="Look for it with: penstock lineage search WORDS. Pipelines report what they do once penstock.yaml has"
        " `lineage: {}`, and `penstock lineage start` stores it",
    )


def _addresses(each: "SearchResult") -> tuple[str, str]:
    """Return how something can be written with its place: `hive://meta/db.table`, `file://host/folder`."""
    return f"{each.context}/{each.name}".lower(), f"{each.context}{each.name}".lower()
