"""Answers about lineage in names instead of numbers, so that those of two stores can be compared."""

import json
from collections.abc import Iterable
from typing import Any

_NUMBERED = {"location", "schema", "tags", "values"}


def named(lineage: Any) -> dict[str, list[Any]]:
    """Return the nodes and relations of an answer, by names and in one order."""
    nodes, relations = lineage["nodes"], lineage["relations"]
    names = {kind: {number: name_of(each) for number, each in nodes[key].items()} for kind, key in _KEYS.items()}

    def end(entity: Any) -> str:
        return f"{entity['kind']} {names.get(entity['kind'], {}).get(entity['id'], entity['id'])}"

    found: dict[str, list[Any]] = {}
    for kind, some in nodes.items():
        found[kind] = _sorted(_node(kind, each, names["JOB"]) for each in some.values())
    for kind, some in relations.items():
        found[kind] = _sorted({**_plain(each), "from": end(each["from"]), "to": end(each["to"])} for each in some)
    return found


_KEYS = {"DATASET": "datasets", "JOB": "jobs"}


def name_of(thing: Any) -> str:
    """Return the whole name of a dataset or a job."""
    location = thing["location"]
    return f"{location['type']}://{location['name']}/{thing['name']}".lower()


def _node(kind: str, node: Any, jobs: dict[str, str]) -> Any:
    said = _plain(node)
    if kind in {"datasets", "jobs"}:
        del said["id"]
    for key in ("job_id", "parent_job_id"):
        if said.get(key) is not None:
            said[key] = jobs[said[key]]
    return said


def _plain(value: Any) -> Any:
    """Return a copy without the numbers of locations, schemas and tags, with lists in one order."""
    if isinstance(value, dict):
        return {
            key: _plain({name: part for name, part in each.items() if name != "id"})
            if key in _NUMBERED and isinstance(each, dict)
            else _plain(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return _sorted(_plain(each) for each in value) if value and isinstance(value[0], dict) else value
    return value


def _sorted(values: Iterable[Any]) -> list[Any]:
    return sorted(values, key=lambda each: json.dumps(each, sort_keys=True))
