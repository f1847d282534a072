"""An answer about lineage as a graph: datasets and who reads and writes them, with edges in the way data go."""

from collections import defaultdict
from dataclasses import dataclass, field

from penstock.lineage.keys import NO_HOST
from penstock.lineage.shapes.lineage import Granularity, Lineage, LineageInputRelation, LineageOutputRelation


@dataclass(frozen=True)
class Node:
    """A dataset, a job, a run or an operation."""

    key: str
    kind: str
    name: str
    detail: str
    """Where it is, or what it is."""


@dataclass(frozen=True)
class Edge:
    """Data flow from one node to another."""

    source: str
    target: str
    label: str


@dataclass(frozen=True)
class Graph:
    """Nodes by key, and edges both ways."""

    nodes: dict[str, Node]
    edges: list[Edge]
    after: dict[str, list[Edge]] = field(default_factory=dict)
    before: dict[str, list[Edge]] = field(default_factory=dict)
    same: dict[str, list[str]] = field(default_factory=dict)
    """Other names of datasets."""


def graph_of(lineage: Lineage, granularity: Granularity) -> Graph:
    """Return the graph of one granularity; sums for the coarser ones are left out."""
    nodes = _nodes(lineage)
    edges = []
    relations: list[LineageInputRelation | LineageOutputRelation] = [
        *lineage.relations.inputs,
        *lineage.relations.outputs,
    ]
    for each in relations:
        ends = {each.from_.kind, each.to.kind}
        if granularity in ends and (granularity != "DATASET" or ends == {"DATASET"}):
            edges.append(Edge(f"{each.from_.kind}:{each.from_.id}", f"{each.to.kind}:{each.to.id}", _label(each)))
    same = defaultdict(list)
    for link in lineage.relations.symlinks:
        same[f"DATASET:{link.from_.id}"].append(f"DATASET:{link.to.id}")
    after, before = defaultdict(list), defaultdict(list)
    for edge in edges:
        after[edge.source].append(edge)
        before[edge.target].append(edge)
    used = {end for edge in edges for end in (edge.source, edge.target)} | {
        key for key, node in nodes.items() if node.kind == "DATASET"
    }
    return Graph(
        {key: node for key, node in nodes.items() if key in used}, edges, dict(after), dict(before), dict(same)
    )


def _nodes(lineage: Lineage) -> dict[str, Node]:
    found = {}
    for number, dataset in lineage.nodes.datasets.items():
        place = dataset.location
        # A folder of the machine that reported it has no host; Spark calls the place just `file`.
        where = place.type if place.name == NO_HOST else f"{place.type}://{place.name}"
        found[f"DATASET:{number}"] = Node(f"DATASET:{number}", "DATASET", dataset.name, where)
    for number, job in lineage.nodes.jobs.items():
        found[f"JOB:{number}"] = Node(f"JOB:{number}", "JOB", job.name, job.type)
    for number, run in lineage.nodes.runs.items():
        of_job = lineage.nodes.jobs.get(run.job_id or "")
        name = of_job.name if of_job is not None else number
        found[f"RUN:{number}"] = Node(f"RUN:{number}", "RUN", name, f"{run.status} {number}")
    for number, operation in lineage.nodes.operations.items():
        found[f"OPERATION:{number}"] = Node(
            f"OPERATION:{number}", "OPERATION", operation.name, f"{operation.status} {number}"
        )
    return found


def _label(each: LineageInputRelation | LineageOutputRelation) -> str:
    parts = []
    if isinstance(each, LineageOutputRelation) and each.types:
        parts.append(", ".join(kind.lower() for kind in each.types))
    if each.num_rows is not None:
        parts.append(f"{each.num_rows:,} {'row' if each.num_rows == 1 else 'rows'}")
    elif each.num_bytes is not None:
        parts.append(f"{each.num_bytes:,} bytes")
    parts.append(f"{each.last_interaction_at:%Y-%m-%d %H:%M}")
    return ", ".join(parts)
