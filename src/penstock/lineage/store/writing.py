"""Writes facts into the store, merged with what is there.

Guarantee: inside the session's open transaction, and by rules that do not depend on order: the same facts twice, in
pieces, or in another order give the same store. Whatever a row refers to is written before it.
"""

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Table

from penstock.lineage.collected import Facts
from penstock.lineage.facts import Facet, Input, Output, greater_job
from penstock.lineage.keys import DatasetKey, JobKey, LocationKey, time_of
from penstock.lineage.store import rules, tables
from penstock.lineage.store.sessions import History, Rows, Session
from penstock.lineage.store.statements import (
    Rule,
    greatest,
    job_of,
    merge,
    staged,
)
from penstock.lineage.store.statements import ids as ids_of
from penstock.lineage.store.uniting import Locations
from penstock.lineage.store.using import each_once, histories
from penstock.lineage.uses import Uses

_MOST_KNOWN = 200_000
"""How many things of the catalogue are remembered: what is known already is not written again."""

Times = dict[UUID, datetime.datetime]
# ruff: noqa: S608 - built of the names of our own tables
_PARENTS = f"""
UPDATE job SET parent_job_id = s.parent_job_id, parent_event_at = s.parent_event_at
FROM {staged(tables.job)} AS s
WHERE job.id = s.id AND (job.parent_event_at IS NULL OR s.parent_event_at > job.parent_event_at
    OR (s.parent_event_at = job.parent_event_at AND s.parent_job_id <> job.parent_job_id
        AND s.parent_job_id = ({job_of("job.parent_job_id", "s.parent_job_id")})))"""


class Writer:
    """Writes through one session. It remembers what the catalogue has, as of the last commit."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ids: dict[Any, tuple[Any, int]] = {}
        self._known: set[Any] = set()
        self._new_ids: dict[Any, tuple[Any, int]] = {}
        self._new_known: set[Any] = set()
        self._places = Locations(session)

    def committed(self) -> None:
        """Take note that what was written is there to stay."""
        if len(self._ids) + len(self._known) > _MOST_KNOWN:
            self._ids.clear()
            self._known.clear()
        self._ids.update(self._new_ids)
        self._known |= self._new_known
        self._places.committed()

    def write(self, facts: Facts, uses: Sequence[Uses] = ()) -> None:
        """Write everything, in the transaction that is open."""
        self._new_ids, self._new_known = {}, set()
        changed = self._places.have_changed()
        uses = each_once(uses, facts)
        united, changed_now = self._places.united(facts)
        if uses and united is not facts:  # under other names two of them may be one, which facts find out
            for task in uses:
                task.put_back(facts, task.operations())
            uses, (united, _) = (), self._places.united(facts)
        facts = united
        if changed or changed_now:
            self._ids.clear()
            self._known.clear()
        locations = self._locations(facts)
        datasets = self._datasets(facts, locations)
        jobs = self._jobs(facts, locations)
        self._schemas(facts, datasets)
        self._tags(facts, datasets, jobs)
        self._new(tables.user, [(each,) for each in facts.users], ("name",), ("name",))
        self._links(facts, datasets, jobs)
        self._facets(facts, datasets, jobs)
        self._relations(facts)
        known = self._session.insert(self._history(facts, datasets, jobs))
        known += self._session.insert_columns(histories(uses, datasets, jobs))
        for table, rows in known:
            columns, key = table.columns.keys(), table.primary_key.columns.keys()
            self._merge(table, columns, key, rules.HISTORY[table], rows)

    # The catalogue.

    def _locations(self, facts: Facts) -> Mapping[LocationKey, int]:
        ids = self._catalogue(
            tables.location,
            facts.locations,
            ("type", "name"),
            ("type", "name"),
            {},
            lambda each: (each.key.type, each.key.name),
        )
        addresses = [(ids[key], url) for key, each in facts.locations.items() for url in each.addresses]
        self._new(tables.location_address, addresses, ("location_id", "url"), ("location_id", "url"))
        return ids

    def _datasets(self, facts: Facts, locations: Mapping[LocationKey, int]) -> Mapping[DatasetKey, int]:
        return self._catalogue(
            tables.dataset,
            facts.datasets,
            ("location_id", "name_key", "name"),
            ("location_id", "name_key"),
            {"name": greatest},
            lambda each: (locations[each.key.location], each.key.name, each.name),
            unless="excluded.name > dataset.name",
        )

    def _jobs(self, facts: Facts, locations: Mapping[LocationKey, int]) -> Mapping[JobKey, int]:
        ids = self._catalogue(
            tables.job,
            facts.jobs,
            ("location_id", "name_key", "name", "type"),
            ("location_id", "name_key"),
            {"name": greatest, "type": greatest},
            lambda each: (locations[each.key.location], each.key.name, each.name, each.type),
            unless="excluded.name > job.name OR excluded.type > job.type OR job.type IS NULL",
        )
        parents = [
            (ids[key], ids[each.parent], self._session.time(each.parent_at))
            for key, each in facts.jobs.items()
            if each.parent is not None and ("job", key) in self._new_ids
        ]
        if parents:
            self._session.load(tables.job, ("id", "parent_job_id", "parent_event_at"), parents)
            self._session.run(_PARENTS)
        return ids

    def _catalogue(
        self,
        table: Table,
        facts: Mapping[Any, Any],
        columns: Sequence[str],
        key: Sequence[str],
        how: Mapping[str, Rule],
        row_of: Callable[[Any], tuple[Any, ...]],
        unless: str = "",
    ) -> dict[Any, int]:
        """Write what the catalogue does not say yet, and return the ids of all."""
        ids: dict[Any, int] = {}
        rows: dict[tuple[Any, ...], Any] = {}
        for name, fact in facts.items():
            known = self._ids.get((table.name, name))
            if known is not None and (known[0] == fact or known[0].merge(fact) == known[0]):
                ids[name] = known[1]
            else:
                rows[row_of(fact)] = name
        if rows:
            self._session.load(table, columns, rows)
            self._session.run(merge(table, columns, key, how, self._session.dialect, unless=unless))
            by_key = {tuple(each[:-1]): each[-1] for each in self._session.run(ids_of(table, key))}
            for row, name in rows.items():
                ids[name] = by_key[row[: len(key)]]
                known = self._ids.get((table.name, name))
                fact = facts[name] if known is None else known[0].merge(facts[name])
                self._new_ids[table.name, name] = (fact, ids[name])
        return ids

    def _new(self, table: Table, rows: Iterable[tuple[Any, ...]], columns: Sequence[str], key: Sequence[str]) -> None:
        """Write rows that say nothing but that they are there, unless they are."""
        fresh = [each for each in rows if (table.name, each) not in self._known]
        if fresh:
            self._merge(table, columns, key, {}, fresh)
            self._new_known.update((table.name, each) for each in fresh)

    def _merge(
        self,
        table: Table,
        columns: Sequence[str],
        key: Sequence[str],
        how: Mapping[str, Rule],
        rows: Rows,
        unless: str = "",
    ) -> None:
        self._session.load(table, columns, rows)
        self._session.run(merge(table, columns, key, how, self._session.dialect, unless=unless))

    def _schemas(self, facts: Facts, datasets: Mapping[DatasetKey, int]) -> None:
        uuid, time = self._session.uuid, self._session.time
        fresh = {digest: fields for digest, fields in facts.schemas.items() if ("schema", digest) not in self._known}
        if fresh:
            rows = [(uuid(digest), fields.decode()) for digest, fields in fresh.items()]
            self._merge(tables.schema, ("digest", "fields"), ("digest",), {}, rows)
            self._new_known.update(("schema", digest) for digest in fresh)
        if not facts.dataset_schemas:
            return
        columns, key = ("dataset_id", "schema_digest", "first_seen_at", "last_seen_at"), ("dataset_id", "schema_digest")
        seen = [
            (datasets[each.dataset], uuid(each.digest), time(each.first_seen), time(each.last_seen))
            for each in facts.dataset_schemas.values()
        ]
        self._merge(tables.dataset_schema, columns, key, rules.DATASET_SCHEMA, seen)

    def _tags(self, facts: Facts, datasets: Mapping[DatasetKey, int], jobs: Mapping[JobKey, int]) -> None:
        of_jobs = [(jobs[each.job], each.name, each.value) for each in facts.job_tags]
        of_datasets = [(datasets[each.dataset], each.name, each.value) for each in facts.dataset_tags]
        said = {each[1:] for each in (*of_jobs, *of_datasets)}
        if not said:
            return
        tag_ids = self._named_ids(tables.tag, ("name",), {(name,) for name, _ in said})
        values = {(tag_ids[name,], value) for name, value in said}
        value_ids = self._named_ids(tables.tag_value, ("tag_id", "value"), values)
        for table, owner, rows in (
            (tables.job_tag, "job_id", of_jobs),
            (tables.dataset_tag, "dataset_id", of_datasets),
        ):
            columns = (owner, "tag_value_id")
            self._new(table, [(of, value_ids[tag_ids[name,], value]) for of, name, value in rows], columns, columns)

    def _named_ids(
        self, table: Table, key: Sequence[str], names: Iterable[tuple[Any, ...]]
    ) -> dict[tuple[Any, ...], int]:
        """Return the ids of what is nothing but a name, and make what is not there."""
        ids = {each: self._ids[table.name, each][1] for each in names if (table.name, each) in self._ids}
        fresh = [each for each in names if each not in ids]
        if fresh:
            self._merge(table, key, key, {}, fresh)
            for *name, number in self._session.run(ids_of(table, key)):
                ids[tuple(name)] = number
                self._new_ids[table.name, tuple(name)] = (None, number)
        return ids

    def _links(self, facts: Facts, datasets: Mapping[DatasetKey, int], jobs: Mapping[JobKey, int]) -> None:
        symlinks = [(datasets[each.source], datasets[each.target], each.type) for each in facts.symlinks]
        columns = ("from_dataset_id", "to_dataset_id", "type")
        self._new(tables.dataset_symlink, symlinks, columns, columns)
        dependencies = [(jobs[each.source], jobs[each.target], each.type) for each in facts.dependencies]
        columns = ("from_job_id", "to_job_id", "type")
        self._new(tables.job_dependency, dependencies, columns, columns)

    def _facets(self, facts: Facts, datasets: Mapping[DatasetKey, int], jobs: Mapping[JobKey, int]) -> None:
        self._facets_of(tables.run_facet, "run_id", facts.run_facets, self._session.uuid)
        self._facets_of(tables.job_facet, "job_id", facts.job_facets, jobs.__getitem__)
        self._facets_of(tables.dataset_facet, "dataset_id", facts.dataset_facets, datasets.__getitem__)

    def _facets_of(
        self, table: Table, owner: str, facets: Mapping[tuple[Any, str], Facet], id_of: Callable[[Any], Any]
    ) -> None:
        if not facets:
            return
        rows = [
            (id_of(of), name, each.value.decode(), self._session.time(each.seen_at))
            for (of, name), each in facets.items()
        ]
        is_newer = rules.is_newer(table.name)
        self._merge(table, (owner, "name", "value", "seen_at"), (owner, "name"), rules.FACET, rows, is_newer)

    def _relations(self, facts: Facts) -> None:
        fresh = {
            fingerprint: relations
            for fingerprint, relations in facts.column_relations.items()
            if ("column_relation", fingerprint) not in self._known
        }
        if fresh:
            columns = ("fingerprint", "number", "source_column", "target_column", "type")
            rows = (
                (self._session.uuid(fingerprint), number, *each)
                for fingerprint, those in fresh.items()
                for number, each in enumerate(those)
            )
            self._merge(tables.column_relation, columns, ("fingerprint", "number"), {}, rows)
            self._new_known.update(("column_relation", fingerprint) for fingerprint in fresh)

    # History.

    def _history(
        self, facts: Facts, datasets: Mapping[DatasetKey, int], jobs: Mapping[JobKey, int]
    ) -> Iterator[History]:
        """Return the rows of each table, made when they are asked for."""
        run_times = self._settle(tables.run, facts.runs)
        operation_times = self._settle(tables.operation, facts.operations)
        if facts.runs:
            yield tables.run, self._runs(facts, run_times, jobs)
        if facts.operations:
            yield tables.operation, self._operations(facts, operation_times)
        if facts.inputs:
            yield tables.input_, self._io(facts.inputs.values(), datasets, jobs)
        if facts.outputs:
            yield tables.output, self._io(facts.outputs.values(), datasets, jobs)
        if facts.column_lineage:
            yield tables.column_lineage, self._column_lineage(facts, datasets, jobs)

    def _settle(self, table: Table, facts: Mapping[UUID, Any]) -> Times:
        """Return when each was created; a row that is there with a later time moves to where it belongs.

        Only an id with a time in it says so by itself; of any other, the first of its events does.
        """
        timeless = [each for each in facts if time_of(each) is None]
        found = self._session.created(table, timeless) if timeless else {}
        for id_, created_at in found.items():
            if facts[id_].created_at < created_at:
                self._session.run(
                    f'UPDATE "{table.name}" SET created_at = ? WHERE created_at = ? AND id = ?',
                    [
                        self._session.time(facts[id_].created_at),
                        self._session.time(created_at),
                        self._session.uuid(id_),
                    ],
                )
        return {id_: min(created_at, facts[id_].created_at) for id_, created_at in found.items()}

    def _runs(self, facts: Facts, times: Times, jobs: Mapping[JobKey, int]) -> list[tuple[Any, ...]]:
        uuid, time = self._session.uuid, self._session.time
        return [
            (
                time(times.get(each.id, each.created_at)),
                uuid(each.id),
                jobs[each.job],
                uuid(each.parent_id),
                each.status,
                time(each.started_at),
                each.started_by,
                each.start_reason,
                time(each.ended_at),
                each.end_reason,
                each.external_id,
                each.attempt,
                each.persistent_log_url,
                each.running_log_url,
                time(each.expected_start_at),
                time(each.expected_end_at),
            )
            for each in facts.runs.values()
        ]

    def _operations(self, facts: Facts, times: Times) -> list[tuple[Any, ...]]:
        uuid, time = self._session.uuid, self._session.time
        return [
            (
                time(times.get(each.id, each.created_at)),
                uuid(each.id),
                uuid(each.run_id),
                each.status,
                each.name,
                each.type,
                each.position,
                each.group,
                each.description,
                each.sql,
                time(each.started_at),
                time(each.ended_at),
            )
            for each in facts.operations.values()
        ]

    def _io(
        self, facts: Iterable[Input | Output], datasets: Mapping[DatasetKey, int], jobs: Mapping[JobKey, int]
    ) -> list[tuple[Any, ...]]:
        uuid, time = self._session.uuid, self._session.time
        return [
            (
                time(each.key.created_at),
                uuid(each.key.operation_id),
                datasets[each.key.dataset],
                uuid(each.run_id),
                jobs[each.job],
                each.key.created_at != time_of(each.key.operation_id),
                *((each.kinds,) if isinstance(each, Output) else ()),
                uuid(each.schema),
                each.num_bytes,
                each.num_rows,
                each.num_files,
            )
            for each in facts
        ]

    def _column_lineage(
        self, facts: Facts, datasets: Mapping[DatasetKey, int], jobs: Mapping[JobKey, int]
    ) -> list[tuple[Any, ...]]:
        uuid, time = self._session.uuid, self._session.time
        # Contradicting events may name two runs or jobs for one use: of each the greater counts.
        uses: dict[tuple[Any, ...], tuple[UUID, JobKey]] = {}
        for each in facts.column_lineage:
            use = (each.created_at, each.operation_id, each.source, each.target, each.fingerprint)
            run_id, job = uses.get(use, (each.run_id, each.job))
            uses[use] = max(run_id, each.run_id), greater_job(job, each.job)
        return [
            (
                time(created_at),
                uuid(operation_id),
                datasets[source],
                datasets[target],
                uuid(fingerprint),
                uuid(run_id),
                jobs[job],
            )
            for (created_at, operation_id, source, target, fingerprint), (run_id, job) in uses.items()
        ]
