"""Commands that ask the lineage store: of, from, to, columns, runs, search."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from penstock.cli.lineage.asking import Since, Until, What, asks, subject, window
from penstock.cli.lineage.rows import show_origins
from penstock.cli.output import Json, moment, print_json, print_table, say
from penstock.errors import BadInput, NotFound
from penstock.wording import plural

if TYPE_CHECKING:
    from penstock.lineage.questions import Questions
    from penstock.lineage.subjects import Level, Subject

Depth = Annotated[int, typer.Option(min=1, max=10, help="Steps, from a dataset to a reader or writer or back.")]
By = Annotated[
    Literal["operation", "run", "job", "dataset"],
    typer.Option("--by", help="What is shown between datasets; `dataset` shows them alone."),
]
Picture = Annotated[Path | None, typer.Option(help="Write a picture to this file: .svg, or .png with the extra `lab`.")]
Row = Annotated[
    str,
    typer.Option(help="Of a Delta or Iceberg table: the records that made these rows, by a condition: id = 7."),
]
_LAST_BATCHES = 3


@asks
def of(
    asked: "Questions",
    what: What,
    depth: Depth = 4,
    by: By = "job",
    since: Since = "30d",
    until: Until = "",
    picture: Picture = None,
    row: Row = "",
    as_json: Json = False,
) -> None:
    """Show where data come from and what is made from them, with the batches and offsets of Penstock's pipelines."""
    if row:
        show_origins(asked, subject(asked, what), row, window(since, until), as_json=as_json)
        return
    _show(asked, what, "BOTH", depth, by, window(since, until), picture, as_json=as_json)


@asks
def from_(
    asked: "Questions",
    what: What,
    depth: Depth = 10,
    by: By = "job",
    since: Since = "30d",
    until: Until = "",
    picture: Picture = None,
    as_json: Json = False,
) -> None:
    """Show where data come from."""
    _show(asked, what, "UPSTREAM", depth, by, window(since, until), picture, as_json=as_json)


@asks
def to(
    asked: "Questions",
    what: What,
    depth: Depth = 10,
    by: By = "job",
    since: Since = "30d",
    until: Until = "",
    picture: Picture = None,
    as_json: Json = False,
) -> None:
    """Show what is made from data: what breaks if they change."""
    _show(asked, what, "DOWNSTREAM", depth, by, window(since, until), picture, as_json=as_json)


@asks
def columns(
    asked: "Questions",
    what: What,
    column: Annotated[list[str] | None, typer.Option(help="Only this column; may be repeated.")] = None,
    since: Since = "30d",
    until: Until = "",
    as_json: Json = False,
) -> None:
    """Show which columns those of a dataset are made of, and which ones decide its rows."""
    from penstock.lineage.shapes.parameters import DatasetLineageQuery
    from penstock.lineage.subjects import column_rows

    found = subject(asked, what)
    if found.kind != "DATASET":
        raise BadInput(f"'{what}' is not a dataset: only those have columns")
    query = DatasetLineageQuery(
        start_node_id=int(found.id),
        granularity="DATASET",
        direction="UPSTREAM",
        include_column_lineage=True,
        **window(since, until),
    )
    lineage = asked.lineage(query)
    rows = column_rows(lineage, str(found.id))
    wanted = {each.lower() for each in column or ()}
    known = {row["column"] for row in rows} - {"*"}
    if known and (unknown := wanted - {name.lower() for name in known}):
        raise NotFound(
            f"nothing is known of a column '{min(unknown)}' of {found.name}",
            fix=f"Known: {', '.join(sorted(known))}",
        )
    rows = [row for row in rows if not wanted or row["column"].lower() in wanted | {"*"}]
    if as_json:
        print_json(rows)
    elif not rows:
        say(f"nothing is known about the columns of {found.name} in this time")
    else:
        print_table(["column", "from", "dataset", "how"], [list(row.values()) for row in rows], own_data=True)


@asks
def runs(
    asked: "Questions",
    job: Annotated[str, typer.Argument(help="Name of a job, or job:NUMBER; all jobs if left out.")] = "",
    status: Annotated[
        Literal["UNKNOWN", "STARTED", "SUCCEEDED", "FAILED", "KILLED"] | None,
        typer.Option(case_sensitive=False, help="Only runs with this status."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=50, help="How many, the latest first.")] = 20,
    since: Since = "30d",
    until: Until = "",
    as_json: Json = False,
) -> None:
    """List runs, the latest first, with what they read and wrote."""
    from penstock.lineage.shapes.parameters import RunsQuery

    more: dict[str, Any] = {}
    if job:
        found = subject(asked, job)
        if found.kind != "JOB":
            raise BadInput(f"'{job}' is not a job", fix="Look for it with: penstock lineage search WORDS")
        more["job_id"] = [int(found.id)]
    page = asked.runs(RunsQuery(**window(since, until), status=[status] if status else [], page_size=limit, **more))
    if as_json:
        print_json(page.items)
        return
    if not page.items:
        say("no run in this time")
        return
    rows = []
    for each in page.items:
        sums, run = each.statistics, each.data
        seconds = (run.ended_at - run.started_at).total_seconds() if run.ended_at and run.started_at else None
        rows.append(
            [
                moment(run.created_at.timestamp()),
                each.job.name if each.job else "",
                run.status,
                "" if seconds is None else f"{seconds:,.1f}",
                sums.inputs.total_rows,
                sums.outputs.total_rows,
                str(run.id),
            ]
        )
    print_table(["time", "job", "status", "seconds", "rows read", "rows written", "run"], rows, own_data=True)
    if page.meta.has_next:
        say(f"{page.meta.total_count - len(page.items):,} more: narrow it by --since, --until, --status or a job")


@asks
def search(
    asked: "Questions",
    words: Annotated[list[str], typer.Argument(help="Words that a name has; each of them.")],
    as_json: Json = False,
) -> None:
    """Look for datasets, jobs, runs, locations, tags and users by name."""
    from penstock.lineage.shapes.parameters import SearchParameters

    text = " ".join(words)
    if len(text) < 3 or len(text) > 1024:  # noqa: PLR2004 - what the service takes
        raise BadInput("a search has 3 to 1024 characters")
    page = asked.search(SearchParameters(search_query=text, page_size=50))
    if as_json:
        print_json(page.items)
        return
    if not page.items:
        say(f"nothing has '{text}' in its name")
        return
    rows = [[each.kind.lower(), each.id, each.name, each.context or ""] for each in page.items]
    print_table(["kind", "id", "name", "where"], rows, own_data=True)
    if page.meta.has_next:
        say(f"{page.meta.total_count - len(page.items):,} more: add a word")


def _show(
    asked: "Questions",
    what: str,
    direction: Literal["BOTH", "UPSTREAM", "DOWNSTREAM"],
    depth: int,
    by: "Level",
    times: dict[str, Any],
    picture: Path | None,
    *,
    as_json: bool,
) -> None:
    from penstock.cli.lineage.tree import print_tree
    from penstock.lineage.graph import graph_of
    from penstock.lineage.subjects import level_of, query_of

    if picture is not None and picture.suffix.lower() not in {".svg", ".png"}:
        raise BadInput(f"{picture} is not a picture: a name ends with .svg or .png")
    found = subject(asked, what)
    level = level_of(found, by)
    lineage = asked.lineage(query_of(found, level, direction=direction, depth=depth, **times))
    graph = graph_of(lineage, level)
    batches = _batches(asked, found, times) if direction != "DOWNSTREAM" else []
    if picture is not None:
        _draw(graph, found.key, picture)
    if as_json:
        print_json({**lineage.model_dump(mode="json", by_alias=True), "batches": batches})
        return
    node = graph.nodes.get(found.key)
    if node is None and not graph.edges:
        raise NotFound(f"nothing is known about {what} in this time", fix="Ask for more with --since, such as 365d")
    title = f"{node.name}  {node.detail}" if node else found.name
    ways = {"BOTH": ("from", "to"), "UPSTREAM": ("from",), "DOWNSTREAM": ("to",)}[direction]
    print_tree(graph, found.key, title, ways)
    for each in batches:
        read = ", ".join(
            f"{part['topic']}/{part['partition']} {_offsets(part['start'], part['end'])}" for part in each["offsets"]
        )
        say(f"batch {each['batch']} at {each['written_at']}: {plural(each['num_rows'] or 0, 'row')} from {read}")


def _offsets(start: int, end: int) -> str:
    """Name the offsets from a start up to, and without, an end."""
    return f"offset {start}" if end - start == 1 else f"offsets {start} to {end - 1}"


def _batches(asked: "Questions", found: "Subject", times: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the last batches of Penstock's pipelines that wrote a dataset."""
    from penstock.lineage.shapes.parameters import BatchesQuery

    if found.kind != "DATASET":
        return []
    page = asked.batches(BatchesQuery(dataset_id=int(found.id), page_size=_LAST_BATCHES, **times))
    return [each.model_dump(mode="json") for each in page.items if each.batch is not None]


def _draw(graph: Any, start: str, file: Path) -> None:
    from penstock.lineage import picture
    from penstock.private import replace_file

    content = picture.png(graph, start) if file.suffix.lower() == ".png" else picture.svg(graph, start).encode()
    replace_file(file, content)
    say(f"picture in {file}")
