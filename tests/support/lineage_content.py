"""Facts in the words of `lineage_oracle`, so that they can be compared: by names, never by ids or digests."""

import json
from typing import Any

import msgspec

from penstock.lineage.collected import Facts
from penstock.lineage.facts import Input, Operation, Output, Run
from penstock.lineage.keys import DatasetKey, JobKey

from support.lineage_oracle import Content, Thing


def of_facts(facts: Facts) -> Content:
    """Return what the facts say."""
    schemas = {digest: json.dumps(json.loads(fields), sort_keys=True) for digest, fields in facts.schemas.items()}
    jobs = {
        _thing(key): {"name": each.name, "type": each.type, "parent": each.parent and _thing(each.parent)}
        for key, each in facts.jobs.items()
    }
    facets: dict[tuple[str, Any, str], Any] = {}
    for (run_id, name), facet in facts.run_facets.items():
        facets["run", run_id, name] = json.loads(facet.value)
    for (job, name), facet in facts.job_facets.items():
        facets["job", _thing(job), name] = json.loads(facet.value)
    for (dataset, name), facet in facts.dataset_facets.items():
        facets["dataset", _thing(dataset), name] = json.loads(facet.value)
    columns: dict[tuple[Any, ...], int] = {}
    for each in facts.column_lineage:
        where = (each.operation_id, each.run_id, _thing(each.job), _thing(each.source), _thing(each.target))
        for relation in facts.column_relations[each.fingerprint]:
            key = (*where, each.created_at, relation.source_column, relation.target_column)
            columns[key] = columns.get(key, 0) | relation.uses

    def io(row: Input | Output) -> dict[str, Any]:
        said = _said(row, "key", "job", "schema")
        said["job"] = _thing(row.job)
        if row.schema is not None:
            said["schema"] = schemas[row.schema]
        return said

    return {
        "locations": {tuple(key): set(each.addresses) for key, each in facts.locations.items()},
        "datasets": {_thing(key): each.name for key, each in facts.datasets.items()},
        "jobs": jobs,
        "schemas": {
            (_thing(key), schemas[digest]): (seen.first_seen, seen.last_seen)
            for (key, digest), seen in facts.dataset_schemas.items()
        },
        "facets": facets,
        "symlinks": {(_thing(each.source), _thing(each.target), each.type) for each in facts.symlinks},
        "dependencies": {(_thing(each.source), _thing(each.target), each.type) for each in facts.dependencies},
        "job_tags": {(_thing(each.job), each.name, each.value) for each in facts.job_tags},
        "dataset_tags": {(_thing(each.dataset), each.name, each.value) for each in facts.dataset_tags},
        "users": facts.users,
        "runs": {key: {**_said(each, "id", "job"), "job": _thing(each.job)} for key, each in facts.runs.items()},
        "operations": {key: _said(each, "id") for key, each in facts.operations.items()},
        "inputs": {_io_key(key): io(each) for key, each in facts.inputs.items()},
        "outputs": {_io_key(key): io(each) for key, each in facts.outputs.items()},
        "columns": columns,
    }


def _thing(key: DatasetKey | JobKey) -> Thing:
    return (key.location.type, key.location.name, key.name)


def _io_key(key: Any) -> tuple[Any, ...]:
    return (key.operation_id, _thing(key.dataset), key.created_at)


def _said(struct: Run | Operation | Input | Output, *without: str) -> dict[str, Any]:
    """Return the fields of which something is known."""
    said = msgspec.structs.asdict(struct)
    return {name: value for name, value in said.items() if value is not None and name not in without}
