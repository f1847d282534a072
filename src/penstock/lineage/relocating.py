"""Facts under other locations: what was said of a place under one of its addresses holds under its one name."""

from collections.abc import Mapping

import msgspec

from penstock.lineage.collected import Facts, put
from penstock.lineage.facts import Dataset, Job, Location
from penstock.lineage.keys import DatasetKey, JobKey, LocationKey


class Relocation:
    """Which locations are now another one."""

    def __init__(self, moved: Mapping[LocationKey, LocationKey]) -> None:
        self._moved = moved

    def _place(self, key: LocationKey) -> LocationKey:
        return self._moved.get(key, key)

    def _dataset(self, key: DatasetKey) -> DatasetKey:
        return DatasetKey(self._place(key.location), key.name)

    def _job(self, key: JobKey) -> JobKey:
        return JobKey(self._place(key.location), key.name)

    def __call__(self, facts: Facts) -> Facts:
        """Return the facts under the new keys, merged where two have become one; nothing is its own other name."""
        made = Facts(
            schemas=facts.schemas,
            users=facts.users,
            operations=facts.operations,
            column_relations=facts.column_relations,
            run_facets=facts.run_facets,
        )
        for place in facts.locations.values():
            put(made.locations, self._place(place.key), Location(self._place(place.key), place.addresses))
        self._catalogue(facts, made)
        for run in facts.runs.values():
            put(made.runs, run.id, msgspec.structs.replace(run, job=self._job(run.job)))
        for read in facts.inputs.values():
            key = read.key._replace(dataset=self._dataset(read.key.dataset))
            put(made.inputs, key, msgspec.structs.replace(read, key=key, job=self._job(read.job)))
        for written in facts.outputs.values():
            key = written.key._replace(dataset=self._dataset(written.key.dataset))
            put(made.outputs, key, msgspec.structs.replace(written, key=key, job=self._job(written.job)))
        made.column_lineage = {
            each._replace(job=self._job(each.job), source=self._dataset(each.source), target=self._dataset(each.target))
            for each in facts.column_lineage
        }
        return made

    def _catalogue(self, facts: Facts, made: Facts) -> None:
        for dataset in facts.datasets.values():
            put(made.datasets, self._dataset(dataset.key), Dataset(self._dataset(dataset.key), dataset.name))
        for job in facts.jobs.values():
            key, parent = self._job(job.key), None if job.parent is None else self._job(job.parent)
            parent_at = None if parent is None or parent == key else job.parent_at
            put(made.jobs, key, Job(key, job.name, job.type, parent if parent_at else None, parent_at))
        links = (
            each._replace(source=self._dataset(each.source), target=self._dataset(each.target))
            for each in facts.symlinks
        )
        made.symlinks = {each for each in links if each.source != each.target}
        made.dependencies = {
            each._replace(source=self._job(each.source), target=self._job(each.target)) for each in facts.dependencies
        }
        made.dataset_tags = {each._replace(dataset=self._dataset(each.dataset)) for each in facts.dataset_tags}
        made.job_tags = {each._replace(job=self._job(each.job)) for each in facts.job_tags}
        for seen in facts.dataset_schemas.values():
            dataset_key = self._dataset(seen.dataset)
            moved = msgspec.structs.replace(seen, dataset=dataset_key)
            put(made.dataset_schemas, (dataset_key, seen.digest), moved)
        for (owner, name), facet in facts.job_facets.items():
            put(made.job_facets, (self._job(owner), name), facet)
        for (of, name), facet in facts.dataset_facets.items():
            put(made.dataset_facets, (self._dataset(of), name), facet)
