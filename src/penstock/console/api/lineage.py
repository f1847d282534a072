"""Lineage: searching datasets and jobs, and the graph around one of them."""

from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from penstock.console.api.lineage_lists import Listed, Part
from penstock.console.asking import NEEDS, FromConsole
from penstock.console.lineage_store import moment, questions
from penstock.errors import BadInput
from penstock.lineage.shapes.parameters import SearchParameters, SearchQuery
from penstock.lineage.subjects import Level

router = APIRouter(prefix="/lineage", tags=["lineage"])


class Found(BaseModel, frozen=True):
    """A dataset, a job or a run whose name has the words."""

    key: str = Field(description="What to ask for: dataset:7, job:3 or run:ID.")
    kind: str = Field(description="dataset, job or run.")
    name: str = Field(description="Its name.")
    where: str = Field(description="Where it is.")


class GraphNode(BaseModel, frozen=True):
    """A node of the graph."""

    key: str = Field(description="What to ask for to have the graph around it.")
    kind: str = Field(description="dataset, job, run or operation.")
    name: str = Field(description="Its name.")
    detail: str = Field(description="Where it is, or what it is.")


class GraphEdge(BaseModel, frozen=True):
    """Data flow from one node to another."""

    source: str = Field(description="Key of the node that they come from.")
    target: str = Field(description="Key of the node that they go to.")
    label: str = Field(description="How much, and when last.")


class ColumnUse(BaseModel, frozen=True):
    """A column that was made of another, or whose rows another decides."""

    column: str = Field(description="The column; * for all of them.")
    source: str = Field(description="The column that it is made of.")
    dataset: str = Field(description="Where that is.")
    how: str = Field(description="How it is used.")


class LineageGraph(BaseModel, frozen=True):
    """What something is made from, and what is made from it."""

    of: str = Field(description="Key of what was asked about.")
    name: str = Field(description="Its name.")
    nodes: list[GraphNode] = Field(description="Nodes.")
    edges: list[GraphEdge] = Field(description="Edges, in the way data go.")
    columns: list[ColumnUse] = Field(description="Of a dataset: which columns its own are made of.")
    width: int = Field(description="How wide the picture is drawn, in pixels.")
    svg: str = Field(description="The same as a picture, in layers from left to right; names are only text in it.")


@router.get("/search", summary="Look for datasets and jobs", dependencies=NEEDS["viewer"])
def search(
    console: FromConsole,
    words: Annotated[SearchQuery, Query(description="Words that a name has; each of them. Three letters at least.")],
    part: Part,
) -> Listed[Found]:
    """Return datasets, jobs and runs by name, the best match first."""
    query = SearchParameters(search_query=words, kind=["DATASET", "JOB", "RUN"], **dict(part))
    with questions(console) as asked:
        found = asked.search(query)
    items = [
        Found(key=f"{each.kind.lower()}:{each.id}", kind=each.kind.lower(), name=each.name, where=each.context or "")
        for each in found.items
    ]
    return Listed.of(found, items)


@router.get("/graph", summary="The graph around something", dependencies=NEEDS["viewer"])
def graph(
    console: FromConsole,
    of: Annotated[str, Query(max_length=64, description="dataset:NUMBER, job:NUMBER, run:ID or operation:ID.")],
    direction: Annotated[
        Literal["both", "upstream", "downstream"],
        Query(description="What it is made from, what is made from it, or both."),
    ] = "both",
    depth: Annotated[int, Query(ge=1, le=10, description="Steps, from a dataset to a reader or writer or back.")] = 4,
    by: Annotated[Level, Query(description="What is shown between datasets; dataset shows them alone.")] = "job",
    since: Annotated[str, Query(max_length=64, description="What happened since: 30d, or a time.")] = "30d",
    until: Annotated[str, Query(max_length=64, description="And until: 7d for a week ago, or a time; else now.")] = "",
) -> LineageGraph:
    """Return nodes, edges and a picture. What nobody has reported in this time is left out."""
    from penstock.lineage.graph import graph_of
    from penstock.lineage.layout import lay_out
    from penstock.lineage.picture import svg
    from penstock.lineage.subjects import column_rows, level_of, query_of, subject_of

    found = subject_of(of)
    level = level_of(found, by)
    is_dataset = found.kind == "DATASET"
    begin, end = moment(since), moment(until) if until else None
    if end is not None and begin >= end:
        raise BadInput(f"nothing happened since {since} and until {until}: that ends before it begins")
    wanted = {"direction": direction.upper(), "depth": depth, "since": begin, "until": end}
    with questions(console) as asked:
        lineage = asked.lineage(query_of(found, level, include_column_lineage=is_dataset, **wanted))
    drawn = graph_of(lineage, level)
    kept = {"direction": direction, "depth": depth, "by": by, "since": since, **({"until": until} if until else {})}
    start = drawn.nodes.get(found.key)
    return LineageGraph(
        of=of,
        name=start.name if start is not None else of,
        nodes=[
            GraphNode(key=key.lower(), kind=node.kind.lower(), name=node.name, detail=node.detail)
            for key, node in drawn.nodes.items()
        ],
        edges=[
            GraphEdge(source=each.source.lower(), target=each.target.lower(), label=each.label) for each in drawn.edges
        ],
        columns=[
            ColumnUse(column=each["column"], source=each["from"], dataset=each["dataset"], how=each["how"])
            for each in (column_rows(lineage, str(found.id)) if is_dataset else [])
        ],
        width=round(lay_out(drawn).width),
        svg=svg(drawn, found.key, lambda key: f"/lineage?{urlencode({'of': key.lower(), **kept})}"),
    )
