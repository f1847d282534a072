"""Locations that share an address are one, under the least of its names: `kafka://b:9092` and `kafka://a:9092,b:9092`.

Guarantee: whichever of their events comes first, the store is the same. Where a third event shows that two locations
are one, their datasets and jobs become one, too, with all that is said of them, in the transaction that is open.
"""

from collections import defaultdict
from collections.abc import Iterable

from sqlalchemy import Table

from penstock.lineage.collected import Facts
from penstock.lineage.keys import LocationKey
from penstock.lineage.relocating import Relocation
from penstock.lineage.store import rules, tables
from penstock.lineage.store.sessions import Session
from penstock.lineage.store.statements import Rule, job_of, merge, quoted, staged

# ruff: noqa: S608 - built of the names of our own tables, and of numbers
_FIND = f"""
SELECT DISTINCT a.url, l.id, l.name FROM {staged(tables.location_address)} AS s
JOIN location_address AS a ON a.url = s.url JOIN location AS l ON l.id = a.location_id"""
_TWINS = """
SELECT o.id, k.id FROM "{0}" AS o JOIN "{0}" AS k ON k.name_key = o.name_key
WHERE o.location_id = ? AND k.location_id = ?"""
_DATASET: tuple[tuple[Table, str, dict[str, Rule]], ...] = (
    (tables.dataset_symlink, "from_dataset_id", {}),
    (tables.dataset_symlink, "to_dataset_id", {}),
    (tables.dataset_schema, "dataset_id", rules.DATASET_SCHEMA),
    (tables.dataset_tag, "dataset_id", {}),
    (tables.dataset_facet, "dataset_id", rules.FACET),
    (tables.input_, "dataset_id", rules.INPUT),
    (tables.output, "dataset_id", rules.OUTPUT),
    (tables.column_lineage, "source_dataset_id", rules.COLUMN_LINEAGE),
    (tables.column_lineage, "target_dataset_id", rules.COLUMN_LINEAGE),
)
_JOB: tuple[tuple[Table, str, dict[str, Rule]], ...] = (
    (tables.job_dependency, "from_job_id", {}),
    (tables.job_dependency, "to_job_id", {}),
    (tables.job_tag, "job_id", {}),
    (tables.job_facet, "job_id", rules.FACET),
)
_OF_JOBS = (("run", "job_id"), ("input", "job_id"), ("output", "job_id"), ("column_lineage", "job_id"))


class Locations:
    """What is known of which address belongs to which location, as of the last commit."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._times: int | None = None
        self._known: dict[str, LocationKey] = {}
        self._new: dict[str, LocationKey] = {}

    def committed(self) -> None:
        """Take note that what was written is there to stay."""
        self._known.update(self._new)

    def have_changed(self) -> bool:
        """Return whether somebody has united locations since this was last asked: then no number is what it was."""
        ((times,),) = self._session.run("SELECT united FROM store")
        changed = self._times is not None and times != self._times
        self._times = times
        if changed:
            self._known.clear()
        return changed

    def united(self, facts: Facts) -> tuple[Facts, bool]:
        """Return the facts under the names that their locations have in the store, and whether those had to change."""
        self._new = {}
        places = facts.locations.values()
        names = {key: self._known.get(f"{key.type}://{key.name}") for key in facts.locations}
        changed = False
        if any(
            self._known.get(url) != names[each.key] or not names[each.key] for each in places for url in each.addresses
        ):
            found, changed = self._settle({url for each in places for url in each.addresses}, facts)
            names.update(found)
        if changed:
            self._known.clear()  # addresses that are not in this batch belong to another one now, too
        moved = {key: name for key, name in names.items() if name is not None and name != key}
        return (Relocation(moved)(facts) if moved else facts), changed

    def _settle(self, urls: set[str], facts: Facts) -> tuple[dict[LocationKey, LocationKey], bool]:
        """Find out which of the batch's and the store's locations are one, and make them so."""
        self._session.load(tables.location_address, ("url",), [(url,) for url in urls])
        groups = _Groups()
        stored: dict[int, str] = {}
        for url, number, name in self._session.run(_FIND):
            stored[number] = name
            groups.join(url, number)
        for each in facts.locations.values():
            for url in each.addresses:
                groups.join(each.key, url)
        found: dict[LocationKey, LocationKey] = {}
        changed = False
        for members in groups.all():
            keys = [each for each in members if isinstance(each, LocationKey)]
            numbers = sorted(each for each in members if isinstance(each, int))
            name = LocationKey(keys[0].type, min([key.name for key in keys] + [stored[each] for each in numbers]))
            found |= dict.fromkeys(keys, name)
            self._new |= {each: name for each in members if isinstance(each, str)}
            if len(numbers) > 1 or any(stored[each] != name.name for each in numbers):
                self._unite(numbers, name)
                changed = True
        return found, changed

    def _unite(self, numbers: list[int], name: LocationKey) -> None:
        """Make one location of several, or give one another name."""
        run, (kept, *others) = self._session.run, numbers
        for other in others:
            for old, new in run(_TWINS.format("dataset"), [other, kept]):
                self._move("dataset", _DATASET, old, new)
            run("DELETE FROM dataset_symlink WHERE from_dataset_id = to_dataset_id")
            for old, new in run(_TWINS.format("job"), [other, kept]):
                for table, column in _OF_JOBS:
                    run(f'UPDATE "{table}" SET "{column}" = ? WHERE "{column}" = ?', [new, old])
                self._adopt(old, new)
                self._move("job", _JOB, old, new)
            for table in ("dataset", "job"):
                run(f'UPDATE "{table}" SET location_id = ? WHERE location_id = ?', [kept, other])
            self._replace(tables.location_address, "location_id", {}, other, kept)
            self._keep("location", ("external_id",), other, kept)
            run("DELETE FROM location WHERE id = ?", [other])
        run("UPDATE location SET name = ? WHERE id = ?", [name.name, kept])
        run("UPDATE store SET united = united + 1")
        self._times = None if self._times is None else self._times + 1

    def _move(self, table: str, references: Iterable[tuple[Table, str, dict[str, Rule]]], old: int, new: int) -> None:
        """Let everything that refers to one refer to another instead, which gets its words where it has none."""
        for each, column, how in references:
            self._replace(each, column, how, old, new)
        words = ("name", "external_id", "external_url") if table == "dataset" else ("name", "type")
        self._keep(table, words, old, new)
        self._session.run(f'DELETE FROM "{table}" WHERE id = ?', [old])

    def _replace(self, table: Table, column: str, how: dict[str, Rule], old: int, new: int) -> None:
        columns, key = [each.name for each in table.columns], [each.name for each in table.primary_key]
        self._session.load(table, columns, [])
        values = ", ".join(f"{int(new)}" if each == column else f'"{each}"' for each in columns)
        into = f"INSERT INTO {staged(table)} ({quoted(columns)})"
        self._session.run(f'{into} SELECT {values} FROM "{table.name}" WHERE "{column}" = ?', [old])
        unless = rules.is_newer(table.name) if how is rules.FACET else ""
        self._session.run(merge(table, columns, key, how, self._session.dialect, unless=unless))
        self._session.run(f'DELETE FROM "{table.name}" WHERE "{column}" = ?', [old])

    def _keep(self, table: str, words: Iterable[str], old: int, new: int) -> None:
        """Keep the greater of what both are called."""
        for each in words:
            self._session.run(
                f'UPDATE "{table}" SET "{each}" = o."{each}" FROM "{table}" AS o WHERE o.id = ? AND "{table}".id = ?'
                f' AND (o."{each}" > "{table}"."{each}" OR ("{table}"."{each}" IS NULL AND o."{each}" IS NOT NULL))',
                [old, new],
            )

    def _adopt(self, old: int, new: int) -> None:
        """Give the children of one job to another, and its parent, if that counts as `Job.merge` has it."""
        run = self._session.run
        run("UPDATE job SET parent_job_id = ? WHERE parent_job_id = ?", [new, old])
        run(
            "UPDATE job SET parent_job_id = o.parent_job_id, parent_event_at = o.parent_event_at FROM job AS o"
            " WHERE o.id = ? AND job.id = ? AND o.parent_event_at IS NOT NULL"
            " AND (job.parent_event_at IS NULL OR job.parent_event_at < o.parent_event_at OR"
            " (job.parent_event_at = o.parent_event_at AND o.parent_job_id <> job.parent_job_id"
            f" AND o.parent_job_id = ({job_of('job.parent_job_id', 'o.parent_job_id')})))",
            [old, new],
        )
        run("UPDATE job SET parent_job_id = NULL, parent_event_at = NULL WHERE parent_job_id = id")


class _Groups:
    """Groups of keys that belong together, directly or through others."""

    def __init__(self) -> None:
        self._group: dict[str | int | LocationKey, set[str | int | LocationKey]] = defaultdict(set)

    def join(self, one: str | int | LocationKey, other: str | int | LocationKey) -> None:
        group = self._group[one] | self._group[other] | {one, other}
        for each in group:
            self._group[each] = group

    def all(self) -> list[set[str | int | LocationKey]]:
        return list({id(group): group for group in self._group.values()}.values())
