"""Adds what lasts to facts: jobs, datasets with their other names, schemas and tags, and unknown facets."""

import datetime
from typing import Any
from uuid import UUID

import msgspec

from penstock.lineage import events
from penstock.lineage.collected import Facts, put, put_facet
from penstock.lineage.extract import facets, names, understood
from penstock.lineage.extract.columns import Schema
from penstock.lineage.extract.producer import Producer
from penstock.lineage.facts import DatasetSchema, DatasetTag, Job, JobDependency, JobTag, Run, Symlink
from penstock.lineage.keys import NO_RUN, DatasetKey, JobKey, time_of

_LASTING = ("schema", "symlinks")
"""The facets that say what a dataset is: long, and the same in event after event."""
_CLIENT_TAG = "openlineage_client_version"
_DIRECT = "DIRECT_DEPENDENCY"


class _Seen(msgspec.Struct, gc=False):
    """From when to when a dataset had a schema."""

    first: datetime.datetime
    last: datetime.datetime

    def add(self, time: datetime.datetime) -> None:
        """Take in one more time."""
        if time > self.last:
            self.last = time
        elif time < self.first:
            self.first = time


class _Mention(msgspec.Struct, gc=False):
    """What a dataset's names, schema and symlinks say, as long as an event has them byte for byte."""

    dataset: DatasetKey
    known: dict[str, Any]
    """Those of the lasting facets that are understood."""
    seen: _Seen | None = None


def _understood(said: events.Dataset, mention: _Mention | None, unknown: list[tuple[str, bytes]]) -> dict[str, Any]:
    """Read what was not read for a former mention; return all that is understood, and add what is not to a list."""
    found, known = said.facets or {}, {} if mention is None else mention.known.copy()
    if len(found) > len(known):
        understood.read(found, understood.DATASET, known, unknown)
    if said.input_facets:
        understood.read(said.input_facets, understood.INPUT, known, unknown)
    if said.output_facets:
        understood.read(said.output_facets, understood.OUTPUT, known, unknown)
    return known


class Catalogue:
    """Adds to `facts`; what is said of time only when it is told to `settle`."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        # Most events name what others have named before: it is there already.
        self._mentions: dict[tuple[Any, ...], _Mention] = {}
        self._seen: dict[tuple[DatasetKey, UUID], _Seen] = {}
        self._datasets: dict[tuple[Producer, str, str], DatasetKey] = {}
        self._jobs: dict[tuple[str, str, str | None], JobKey] = {}
        self._versions: set[tuple[JobKey, str | None, str, str | None]] = set()

    def dataset(
        self, said: events.Dataset, producer: Producer, time: datetime.datetime
    ) -> tuple[DatasetKey, dict[str, Any]]:
        """Add a dataset with all that is said of it; return its key, and the facets that are understood.

        Where the producer prefers names of a catalogue, the key is that table's.
        """
        found = said.facets or {}
        schema, symlinks = found.get("schema"), found.get("symlinks")
        words = (
            producer,
            said.namespace,
            said.name,
            None if schema is None else bytes(schema),
            None if symlinks is None else bytes(symlinks),
        )
        mention = self._mentions.get(words)
        if mention is not None and len(found) == len(mention.known) and not (said.input_facets or said.output_facets):
            known = mention.known  # and that is all
        else:
            unknown: list[tuple[str, bytes]] = []
            known = _understood(said, mention, unknown)
            if mention is None:
                mention = self._mentions[words] = self._mentioned(said, producer, known, time)
            self._more(mention.dataset, found, known, unknown, time)
        if mention.seen is not None:
            mention.seen.add(time)
        return mention.dataset, known

    def _more(
        self,
        dataset: DatasetKey,
        found: events.Facets,
        known: dict[str, Any],
        unknown: list[tuple[str, bytes]],
        time: datetime.datetime,
    ) -> None:
        """Add what else is said of a dataset: tags and unknown facets."""
        if "tags" in known:
            of_columns = self._dataset_tags(dataset, known["tags"])
            if of_columns and "tags" in found:
                unknown.append(("tags", bytes(found["tags"])))  # those of columns have no other place
        for name, facet in unknown:
            put_facet(self.facts.dataset_facets, (dataset, name), time, facet)

    def _dataset_tags(self, dataset: DatasetKey, tags: facets.Tags) -> bool:
        """Add the tags of a dataset; return whether there are some of its columns, too."""
        for tag in tags.tags:
            if tag.field is None:
                self.facts.dataset_tags.add(DatasetTag(dataset, names.bounded(tag.key), _text(tag)))
        return any(tag.field is not None for tag in tags.tags)

    def _mentioned(
        self, said: events.Dataset, producer: Producer, known: dict[str, Any], time: datetime.datetime
    ) -> "_Mention":
        """Add what lasts of a dataset: its names, and the schema that it has."""
        lasting = {name: known[name] for name in _LASTING if name in known}
        dataset = self.named(producer, said.namespace, said.name)
        if "symlinks" in known:
            dataset = self._symlinks(dataset, known["symlinks"], producer)
        schema: Schema | None = known.get("schema")
        if schema is None:
            return _Mention(dataset, lasting)
        self.facts.schemas[schema.digest] = schema.columns
        seen = self._seen.setdefault((dataset, schema.digest), _Seen(time, time))
        return _Mention(dataset, lasting, seen)

    def settle(self) -> None:
        """Add when datasets had their schemas, which changes with each event."""
        for (dataset, digest), seen in self._seen.items():
            put(self.facts.dataset_schemas, (dataset, digest), DatasetSchema(dataset, digest, seen.first, seen.last))

    def _symlinks(self, dataset: DatasetKey, symlinks: facets.Symlinks, producer: Producer) -> DatasetKey:
        """Add the other names of a dataset, each way; return the one that it goes by."""
        chosen: DatasetKey | None = None
        for each in symlinks.identifiers or ():
            if not producer.is_symlink(each):
                continue
            other = self.named(producer, each.namespace, each.name)
            if other == dataset:
                continue
            there, back = ("METASTORE", "WAREHOUSE") if each.type == "TABLE" else ("WAREHOUSE", "METASTORE")
            if (dataset, other, there) not in self.facts.symlinks:
                self.facts.symlinks.add(Symlink(dataset, other, there))
                self.facts.symlinks.add(Symlink(other, dataset, back))
            if chosen is None and each.type == "TABLE" and producer.prefers_tables:
                chosen = other
        return chosen or dataset

    def named(self, producer: Producer, namespace: str, name: str) -> DatasetKey:
        """Add a dataset of which only the name is known."""
        said = (producer, namespace, name)
        key = self._datasets.get(said)
        if key is None:
            dataset, location = names.dataset(namespace, producer.dataset_name(name))
            put(self.facts.datasets, dataset.key, dataset)
            put(self.facts.locations, location.key, location)
            key = self._datasets[said] = dataset.key
        return key

    def job(
        self,
        namespace: str,
        name: str,
        job_type: str | None = None,
        parent: JobKey | None = None,
        time: datetime.datetime | None = None,
    ) -> JobKey:
        """Add a job; the time is when its parent was said."""
        said = (namespace, name, job_type)
        key = self._jobs.get(said)
        if key is None:
            bare, location = names.job(namespace, name)
            put(self.facts.jobs, bare.key, Job(bare.key, bare.name, job_type))
            put(self.facts.locations, location.key, location)
            key = self._jobs[said] = bare.key
        if parent is not None and parent != key:
            put(self.facts.jobs, key, Job(key, names.bounded(name), job_type, parent, time))
        return key

    def parent(self, said: facets.ParentRun, job_type: str | None, time: datetime.datetime) -> JobKey:
        """Add the run that started a run, and the one that started all; return the first's job."""
        job = self.job(said.job.namespace, said.job.name, job_type)
        self._run(said.run.run_id, job, time)
        self.root(said, time)
        return job

    def root(self, said: facets.ParentRun, time: datetime.datetime) -> None:
        """Add the run that started all, if the event names it."""
        root = said.root
        if root is not None and root.run.run_id not in (said.run.run_id, NO_RUN):
            self._run(root.run.run_id, self.job(root.job.namespace, root.job.name), time)

    def _run(self, run_id: UUID, job: JobKey, time: datetime.datetime) -> None:
        put(self.facts.runs, run_id, Run(id=run_id, created_at=time_of(run_id) or time, job=job))

    def versions(self, job: JobKey, engine: facets.ProcessingEngine | None) -> None:
        """Add the version of a job's engine and of its integration, as tags."""
        if engine is None:
            return
        said = (job, engine.name, engine.version, engine.openlineage_adapter_version)
        if said in self._versions:
            return
        self._versions.add(said)
        if engine.name:
            name = names.bounded(f"{engine.name.lower()}.version")
            self.facts.job_tags.add(JobTag(job, name, names.bounded(engine.version)))
        if engine.openlineage_adapter_version:
            version = names.bounded(engine.openlineage_adapter_version)
            self.facts.job_tags.add(JobTag(job, "openlineage_adapter.version", version))

    def tags(self, job: JobKey, tags: facets.Tags | None) -> None:
        """Add tags of a job or of its run: producers mix these up, so all are the job's."""
        for tag in tags.tags if tags is not None else ():
            name = "openlineage_client.version" if tag.key == _CLIENT_TAG else names.bounded(tag.key)
            self.facts.job_tags.add(JobTag(job, name, _text(tag)))

    def dependencies(self, job: JobKey, said: facets.JobDependencies | None) -> None:
        """Add the jobs that a job waits for, and those that wait for it."""
        if said is None:
            return
        for each in said.upstream or ():
            other = self.job(each.job.namespace, each.job.name)
            self.facts.dependencies.add(JobDependency(other, job, names.bounded(each.dependency_type or _DIRECT)))
        for each in said.downstream or ():
            other = self.job(each.job.namespace, each.job.name)
            self.facts.dependencies.add(JobDependency(job, other, names.bounded(each.dependency_type or _DIRECT)))


def _text(tag: facets.Tag) -> str:
    if isinstance(tag.value, bool):
        return "true" if tag.value else "false"
    return "" if tag.value is None else names.bounded(str(tag.value))
