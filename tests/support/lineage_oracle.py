"""What a lineage store has to hold after some events: a slow, plain reading, which shares no code with the package.

First everything that the events say is collected, with the time at which it was said. Only then is it judged what
holds. So order and duplicates cannot matter here, and whoever merges as events come can be compared with it.
"""

import datetime
import json
import uuid
from collections import defaultdict
from typing import Any

from support.lineage_event_parts import (
    WRITES,
    columns_of,
    event_of,
    hour_of,
    integration_of,
    job_kind_of,
    job_type_of,
    least_host,
    moment,
    path_without_partitions,
    schema_of,
    time_in,
    write_of,
)

LocationId = tuple[str, str]
"""Type and name of a location."""
Thing = tuple[str, str, str]
"""A dataset or job: type and name of its location, and its name in lower case."""
Content = dict[str, Any]

TERMINAL = {"COMPLETE": 1, "FAIL": 2, "ABORT": 3}
KNOWN = {
    "run": {"parent", "processing_engine", "nominalTime", "errorMessage", "tags", "jobDependencies", "flink_job"}
    | {"spark_applicationDetails", "spark_jobDetails", "airflow", "airflowDagRun", "dbt_run", "hive_query"}
    | {"hive_session", "dataRentgen_run", "dataRentgen_operation"},
    "job": {"jobType", "sql", "tags"},
    "dataset": {"schema", "symlinks", "columnLineage", "lifecycleStateChange", "tags", "inputStatistics"}
    | {"outputStatistics"},
}


def content(values: list[bytes], *, united: bool = True) -> Content:
    """Return what the store has to hold after these values, whatever is malformed left out.

    Facts on their way to a store do not know yet which locations are one: they are compared without `united`.
    """
    events = [event for event in map(event_of, values) if event is not None]
    places = _Sayings({})
    for event in events:
        places.listen(event)
    sayings = _Sayings(_united(places.addresses) if united else {})
    for event in events:
        sayings.listen(event)
    return sayings.judged()


def _united(addresses: dict[LocationId, set[str]]) -> dict[LocationId, LocationId]:
    """Return for each place the least of those that it shares addresses with, over any number of steps."""
    least = {place: place for place in addresses}
    for _ in addresses:
        for one, urls in addresses.items():
            least[one] = min(least[other] for other, others in addresses.items() if urls & others)
    return least


class _Sayings:
    def __init__(self, united: dict[LocationId, LocationId]) -> None:
        self.united = united
        self.addresses: dict[LocationId, set[str]] = defaultdict(set)
        self.spellings: dict[str, dict[Thing, set[str]]] = {"datasets": defaultdict(set), "jobs": defaultdict(set)}
        self.job_types: dict[Thing, set[str]] = defaultdict(set)
        self.job_parents: dict[Thing, set[tuple[datetime.datetime, Thing]]] = defaultdict(set)
        self.unions: dict[str, set[Any]] = defaultdict(set)
        self.schemas: dict[tuple[Thing, str], set[datetime.datetime]] = defaultdict(set)
        self.facets: dict[tuple[str, Any, str], set[tuple[datetime.datetime, str]]] = defaultdict(set)
        self.things: dict[str, dict[Any, dict[str, set[Any]]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(set))
        )

    def listen(self, event: dict[str, Any]) -> None:
        time = moment(event["eventTime"])
        if "run" in event:
            self._run_event(event, time)
        elif "job" in event:
            job = self._job(event["job"]["namespace"], event["job"]["name"], job_type_of(event))
            self._tags("job_tags", job, event["job"])
            self._unknown("job", job, event["job"].get("facets"), time)
            declared = uuid.uuid5(uuid.NAMESPACE_URL, f"{job[0]}://{least_host(event['job'])}/{job[2]}")
            self._reads_and_writes(event, declared, uuid.UUID(int=0), job, integration_of(event), time)
        else:
            self._dataset(event["dataset"], "", time)

    # runs and operations

    def _run_event(self, event: dict[str, Any], time: datetime.datetime) -> None:
        integration, kind = integration_of(event), job_kind_of(event)
        own_id = uuid.UUID(event["run"]["runId"])
        facets = event["run"].get("facets") or {}
        parent = facets.get("parent")
        io = bool(event.get("inputs") or event.get("outputs"))
        is_operation = {
            "SPARK": kind != "APPLICATION",
            "AIRFLOW": kind == "TASK",
            "DBT": kind != "JOB",
            "FLINK": kind == "JOB" or io,
        }.get(integration, io)
        if parent is not None and is_operation and integration in ("SPARK", "DBT"):
            run_id = uuid.UUID(parent["run"]["runId"])
            parent_type = {"SPARK": "SPARK_APPLICATION", "DBT": "DBT_JOB"}[integration]
            job = self._job(parent["job"]["namespace"], parent["job"]["name"], parent_type)
            self._say_run(run_id, job, time)
            if "errorMessage" in facets:
                self._facet("run", own_id, "errorMessage", facets["errorMessage"], time)
        else:
            run_id = own_id
            job = self._job(event["job"]["namespace"], event["job"]["name"], job_type_of(event))
            run = self._say_run(run_id, job, time)
            self._say_state(run, event, time)
            if parent is not None:
                of_parent = self._job(
                    parent["job"]["namespace"],
                    parent["job"]["name"],
                    "AIRFLOW_DAG" if integration == "AIRFLOW" else None,
                )
                self._say_run(uuid.UUID(parent["run"]["runId"]), of_parent, time)
                run["parent_id"].add(uuid.UUID(parent["run"]["runId"]))
                self.job_parents[job].add((time, of_parent))
            if "errorMessage" in facets:
                run["end_reason"].add(facets["errorMessage"]["message"])
            if "nominalTime" in facets:
                run["expected_start_at"].add(moment(facets["nominalTime"]["nominalStartTime"]))
                if facets["nominalTime"].get("nominalEndTime"):
                    run["expected_end_at"].add(moment(facets["nominalTime"]["nominalEndTime"]))
        if parent is not None and "root" in parent:
            root = parent["root"]
            of_root = self._job(root["job"]["namespace"], root["job"]["name"])
            self._say_run(uuid.UUID(root["run"]["runId"]), of_root, time)
        self._details(self.things["runs"][run_id], facets)
        self._job_sayings(job, event, facets)
        self._unknown("run", own_id, facets, time)
        self._unknown("job", job, event["job"].get("facets"), time)
        if is_operation:
            self._operation(event, own_id, run_id, job, integration, time)

    def _say_run(self, run_id: uuid.UUID, job: Thing, time: datetime.datetime) -> dict[str, set[Any]]:
        run = self.things["runs"][run_id]
        run["job"].add(job)
        run["created_at"].add(time_in(run_id) or time)
        return run

    def _say_state(self, thing: dict[str, set[Any]], event: dict[str, Any], time: datetime.datetime) -> None:
        kind = event.get("eventType")
        if kind in ("START", "RUNNING"):
            thing["started"].add(time)
        elif kind in TERMINAL:
            thing["ended"].add((time, TERMINAL[kind]))

    def _details(self, run: dict[str, set[Any]], facets: dict[str, Any]) -> None:
        if "spark_applicationDetails" in facets:
            said = facets["spark_applicationDetails"]
            run["external_id"].add(said["applicationId"])
            run["started_by"].add(said["userName"])
            run["running_log_url"].add(said["uiWebUrl"])
        for name in ("airflow", "airflowDagRun"):
            if name in facets:
                said = facets[name]
                run["external_id"].add(said["dagRun"]["run_id"])
                run["start_reason"].add("MANUAL" if said["dagRun"]["run_type"] == "manual" else "AUTOMATIC")
                run["started_by"].add(said["dag"]["owner"])
        if "airflow" in facets:
            run["attempt"].add(str(facets["airflow"]["taskInstance"]["try_number"]))
            run["persistent_log_url"].add(facets["airflow"]["taskInstance"]["log_url"])
        if "dbt_run" in facets:
            run["external_id"].add(facets["dbt_run"]["invocation_id"])
        if "flink_job" in facets:
            run["external_id"].add(facets["flink_job"]["jobId"])
        self.unions["users"].update(run["started_by"])

    def _job_sayings(self, job: Thing, event: dict[str, Any], facets: dict[str, Any]) -> None:
        if "processing_engine" in facets:
            said = facets["processing_engine"]
            self.unions["job_tags"].add((job, f"{said['name'].lower()}.version", said["version"]))
            adapter = said["openlineageAdapterVersion"]
            self.unions["job_tags"].add((job, "openlineage_adapter.version", adapter))
        self._tags("job_tags", job, event["run"])
        self._tags("job_tags", job, event["job"])
        for each in facets.get("jobDependencies", {}).get("upstream", ()):
            other = self._job(each["job"]["namespace"], each["job"]["name"])
            kind = each.get("dependency_type") or "DIRECT_DEPENDENCY"
            self.unions["dependencies"].add((other, job, kind))

    def _operation(
        self,
        event: dict[str, Any],
        operation_id: uuid.UUID,
        run_id: uuid.UUID,
        job: Thing,
        integration: str,
        time: datetime.datetime,
    ) -> None:
        facets = event["run"].get("facets") or {}
        job_facets = event["job"].get("facets") or {}
        operation = self.things["operations"][operation_id]
        operation["run_id"].add(run_id)
        operation["created_at"].add(time_in(operation_id) or time)
        operation["type"].add(job_facets.get("jobType", {}).get("processingType"))
        self._say_state(operation, event, time)
        name = event["job"]["name"]
        if integration in ("SPARK", "AIRFLOW") and "parent" in facets:
            name = name.removeprefix(facets["parent"]["job"]["name"] + ".")
        operation["name"].add(name)
        if "spark_jobDetails" in facets:
            operation["position"].add(facets["spark_jobDetails"]["jobId"])
            operation["description"].add(facets["spark_jobDetails"]["jobDescription"])
        if "airflow" in facets:
            operation["position"].add(facets["airflow"]["taskInstance"]["map_index"])
            operation["description"].add(facets["airflow"]["task"]["operator_class"])
        if integration == "DBT":
            operation["group"].add(job_kind_of(event))
        operation["sql"].add(job_facets.get("sql", {}).get("query"))
        self._reads_and_writes(event, operation_id, run_id, job, integration, time)

    def _reads_and_writes(
        self,
        event: dict[str, Any],
        operation_id: uuid.UUID,
        run_id: uuid.UUID,
        job: Thing,
        integration: str,
        time: datetime.datetime,
    ) -> None:
        query = (event["job"].get("facets") or {}).get("sql", {}).get("query")
        hour = hour_of(operation_id, time)
        tables: dict[tuple[str, str], Thing] = {}
        for each in event.get("inputs") or ():
            table = tables[each["namespace"], each["name"]] = self._dataset(each, integration, time)
            self._counts("inputs", each, "inputStatistics", operation_id, table, hour, run_id, job)
        for each in event.get("outputs") or ():
            table = tables[each["namespace"], each["name"]] = self._dataset(each, integration, time)
            row = self._counts("outputs", each, "outputStatistics", operation_id, table, hour, run_id, job)
            row["kinds"].add(write_of(each, query) or (integration in ("DBT", "FLINK") and WRITES["APPEND"]))
        for each in event.get("outputs") or ():
            target = tables[each["namespace"], each["name"]]
            for source, source_column, target_column, use in columns_of(each):
                known = tables.get(source) or self._named(source[0], path_without_partitions(source[1], integration))
                self.things["columns"][operation_id, run_id, job, known, target, hour, source_column, target_column][
                    "uses"
                ].add(use)

    def _counts(
        self,
        side: str,
        said: dict[str, Any],
        facet: str,
        operation_id: uuid.UUID,
        table: Thing,
        hour: datetime.datetime,
        run_id: uuid.UUID,
        job: Thing,
    ) -> dict[str, set[Any]]:
        row = self.things[side][operation_id, table, hour]
        row["run_id"].add(run_id)
        row["job"].add(job)
        row["schema"].add(schema_of(said))
        counts = (said.get("inputFacets" if side == "inputs" else "outputFacets") or {}).get(facet, {})
        row["num_rows"].add(counts.get("rowCount"))
        row["num_bytes"].add(counts.get("size"))
        row["num_files"].add(counts.get("fileCount"))
        return row

    # what lasts

    def _dataset(self, said: dict[str, Any], integration: str, time: datetime.datetime) -> Thing:
        found = self._named(said["namespace"], path_without_partitions(said["name"], integration))
        facets = said.get("facets") or {}
        goes_by = found
        for each in facets.get("symlinks", {}).get("identifiers", ()):
            other = self._named(each["namespace"], path_without_partitions(each["name"], integration))
            is_table = each["type"] == "TABLE"
            self.unions["symlinks"].add((found, other, "METASTORE" if is_table else "WAREHOUSE"))
            self.unions["symlinks"].add((other, found, "WAREHOUSE" if is_table else "METASTORE"))
            if integration == "SPARK" and is_table:
                goes_by = other
        schema = schema_of(said)
        if schema is not None:
            self.schemas[goes_by, schema].add(time)
        self._tags("dataset_tags", goes_by, said)
        for name in ("facets", "inputFacets", "outputFacets"):
            self._unknown("dataset", goes_by, said.get(name), time)
        return goes_by

    def _named(self, namespace: str, name: str) -> Thing:
        return self._thing("datasets", namespace, name)

    def _job(self, namespace: str, name: str, kind: str | None = None) -> Thing:
        job = self._thing("jobs", namespace, name)
        if kind is not None:
            self.job_types[job].add(kind)
        return job

    def _thing(self, what: str, namespace: str, name: str) -> Thing:
        kind, _, rest = namespace.lower().rpartition("://")
        kind = kind or "unknown"
        hosts = sorted(rest.split("/")[0].split(","))
        place = self.united.get((kind, hosts[0]), (kind, hosts[0]))
        self.addresses[place].update(f"{kind}://{host}" for host in hosts)
        thing = (*place, name.lower())
        self.spellings[what][thing].add(name)
        return thing

    def _tags(self, what: str, owner: Thing, said: dict[str, Any]) -> None:
        for tag in ((said.get("facets") or {}).get("tags") or {}).get("tags", ()):
            name = "openlineage_client.version" if tag["key"] == "openlineage_client_version" else tag["key"]
            self.unions[what].add((owner, name, tag["value"]))

    def _unknown(self, kind: str, owner: Any, facets: dict[str, Any] | None, time: datetime.datetime) -> None:
        for name, value in (facets or {}).items():
            if name not in KNOWN[kind]:
                self._facet(kind, owner, name, value, time)

    def _facet(self, kind: str, owner: Any, name: str, value: Any, time: datetime.datetime) -> None:
        self.facets[kind, owner, name].add((time, json.dumps(value, separators=(",", ":"))))

    # what holds

    def judged(self) -> Content:
        parents = {
            job: max(said, key=lambda each: (each[0], _name_first(each[1])))[1]
            for job, said in self.job_parents.items()
        }
        jobs = {
            job: {"name": max(spelt), "type": max(self.job_types[job], default=None), "parent": parents.get(job)}
            for job, spelt in self.spellings["jobs"].items()
        }
        return {
            "locations": dict(self.addresses),
            "datasets": {each: max(spelt) for each, spelt in self.spellings["datasets"].items()},
            "jobs": jobs,
            "schemas": {key: (min(times), max(times)) for key, times in self.schemas.items()},
            "facets": {key: json.loads(max(said)[1]) for key, said in self.facets.items()},
            "symlinks": self.unions["symlinks"],
            "dependencies": self.unions["dependencies"],
            "job_tags": self.unions["job_tags"],
            "dataset_tags": self.unions["dataset_tags"],
            "users": self.unions["users"],
            "runs": {key: _lasting(said) for key, said in self.things["runs"].items()},
            "operations": {key: _lasting(said) for key, said in self.things["operations"].items()},
            "inputs": {key: _greatest(said) for key, said in self.things["inputs"].items()},
            "outputs": {
                key: {**_greatest(said), "kinds": _added(said["kinds"])} for key, said in self.things["outputs"].items()
            },
            "columns": {key: _added(said["uses"]) for key, said in self.things["columns"].items()},
        }


def _lasting(said: dict[str, set[Any]]) -> dict[str, Any]:
    """Return what holds of a run or an operation; what nobody said is left out."""
    held = _greatest({name: values for name, values in said.items() if name not in ("started", "ended", "created_at")})
    held["created_at"] = min(said["created_at"])
    held["status"] = -1
    if said["started"]:
        held["started_at"] = min(said["started"])
        held["status"] = 0
    if said["ended"]:
        held["ended_at"] = max(time for time, _ in said["ended"])
        held["status"] = max(status for _, status in said["ended"])
    return held


def _greatest(said: dict[str, set[Any]]) -> dict[str, Any]:
    known = {name: values - {None} for name, values in said.items()}
    keys = {"job": _name_first}
    return {name: max(values, key=keys.get(name)) for name, values in known.items() if values}


def _name_first(job: Thing) -> Any:
    """Return by what the greater of two jobs is found: not by the location first, which may become another."""
    return job[2], *job[:2]


def _added(flags: set[int]) -> int:
    total = 0
    for each in flags:
        total |= each
    return total
