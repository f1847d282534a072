"""Which records made the rows of a table, and in which batch they came."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli.output import print_json, print_table, say
from penstock.errors import BadInput, NotFound

if TYPE_CHECKING:
    from penstock.lineage.questions import Questions
    from penstock.lineage.shapes.search import Batch
    from penstock.lineage.subjects import Subject

_COORDINATES = ("_topic_id", "_partition", "_offset")
_MOST_ROWS = 20
_PAGE = 50
_MOST_PAGES = 200


def show_origins(asked: "Questions", found: "Subject", where: str, times: dict[str, Any], *, as_json: bool) -> None:
    """Show for each row that meets a condition the record that it was made of, and the batch that wrote it."""
    from penstock.lineage.shapes.parameters import DatasetsQuery
    from penstock.sinks.table_query import rows_of
    from penstock.sinks.tables import is_landed, open_table

    if found.kind != "DATASET":
        raise BadInput(f"'{found.name}' is not a dataset: only those have rows")
    [dataset] = asked.datasets(DatasetsQuery(dataset_id=[int(found.id)])).items
    folder = Path(dataset.data.name)
    if dataset.data.location.type != "file" or (folder.is_dir() and not is_landed(folder)):
        raise BadInput(
            f"--row looks into Delta and Iceberg tables on this machine, and {dataset.data.name} is none",
            fix=f"See which batches wrote it with: penstock lineage of dataset:{found.id}",
        )
    rows = rows_of(open_table(folder), columns=[], where=where, limit=_MOST_ROWS).to_pylist()
    if not rows:
        raise NotFound(f"no row of {dataset.data.name} meets '{where}'")
    if any(name not in rows[0] for name in _COORDINATES):
        raise BadInput(f"rows of {dataset.data.name} are results of many records: they have no coordinates")
    batches = _batches(asked, int(found.id), times, {tuple(row[name] for name in _COORDINATES) for row in rows})
    described = [_described(row, batches.get(tuple(row[name] for name in _COORDINATES))) for row in rows]
    if as_json:
        print_json(described)
        return
    print_table(list(described[0]), [list(each.values()) for each in described], own_data=True)
    known = next((each for each in described if each["topic"] is not None), None)
    if known is not None:
        say(
            f"the record: penstock consume {known['topic']} --partition {known['partition']}"
            f" --from {known['offset']} --count 1"
        )
    if len(rows) == _MOST_ROWS:
        say(f"the first {_MOST_ROWS} rows; narrow the condition to see others")


def _described(row: dict[str, Any], batch: "tuple[Batch, str] | None") -> dict[str, Any]:
    own = {name: value for name, value in row.items() if not name.startswith("_")}
    return {
        **own,
        "topic": batch[1] if batch else None,
        "partition": row["_partition"],
        "offset": row["_offset"],
        "batch": batch[0].batch if batch else None,
        "written_at": batch[0].written_at if batch else None,
    }


def _batches(
    asked: "Questions", dataset_id: int, times: dict[str, Any], wanted: set[tuple[Any, ...]]
) -> "dict[tuple[Any, ...], tuple[Batch, str]]":
    """Find the batch that read each of these records, the latest first; what none has read is left out."""
    from penstock.lineage.shapes.parameters import BatchesQuery

    found: dict[tuple[Any, ...], tuple[Batch, str]] = {}
    for number in range(1, _MOST_PAGES + 1):
        page = asked.batches(BatchesQuery(dataset_id=dataset_id, page=number, page_size=_PAGE, **times))
        for batch in page.items:
            for part in batch.offsets:
                for record in wanted - found.keys():
                    if (
                        record[:2] == (part.get("topicId"), part["partition"])
                        and part["start"] <= record[2] < part["end"]
                    ):
                        found[record] = batch, part["topic"]
        if len(found) == len(wanted) or not page.meta.has_next:
            break
    return found
