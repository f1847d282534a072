"""Airflow: a DAG and each of its tasks are jobs; a task's run is its own operation, a DAG's run has none."""

from urllib.parse import quote

from penstock.lineage.extract import facets
from penstock.lineage.extract.producer import Enclosing, OperationDetails, Producer, Reading, RunDetails

_NOBODY = (None, "", "airflow", "***")
"""Owners that Airflow sets by itself, or hides."""
_BEFORE_3 = ("1", "2")
"""Airflow 3 has other addresses."""


class Airflow(Producer):
    """Airflow's provider."""

    parent_type = "AIRFLOW_DAG"

    def is_operation(self, reading: Reading) -> bool:
        """Return whether it is a task."""
        return reading.job_type == "TASK"

    def enclosing(self, reading: Reading) -> Enclosing | None:  # noqa: ARG002
        """Return None: a task has a run of its own."""
        return None

    def run_details(self, reading: Reading) -> RunDetails:
        """Return what is known of the run of a DAG or task."""
        task: facets.AirflowTaskFacet | None = reading.run.get("airflow")
        said: facets.AirflowTaskFacet | facets.AirflowDagRunFacet | None = task or reading.run.get("airflowDagRun")
        if said is None:
            return {}
        details: RunDetails = {
            "external_id": said.dag_run.run_id,
            "start_reason": "MANUAL" if said.dag_run.run_type == "manual" else "AUTOMATIC",
            "persistent_log_url": _log_url(reading, said),
        }
        if said.dag.owner not in _NOBODY:
            details["started_by"] = said.dag.owner
        if task is not None and task.task_instance.try_number is not None:
            details["attempt"] = str(task.task_instance.try_number)
        return details

    def operation_details(self, reading: Reading) -> OperationDetails:
        """Return what is known of the task; its last event may come without the facet."""
        said: facets.AirflowTaskFacet | None = reading.run.get("airflow")
        if said is None:
            parent, name = reading.parent, reading.job_name
            return {"name": name if parent is None else name.removeprefix(f"{parent.job.name}.")}
        return {
            "name": said.task.task_id,
            "description": said.task.operator_class,
            "position": said.task_instance.map_index,
            "group": said.task.task_group.group_id if said.task.task_group else None,
        }


def _log_url(reading: Reading, said: facets.AirflowTaskFacet | facets.AirflowDagRunFacet) -> str | None:
    """Return where Airflow shows the run, as it says or as its version lays out addresses."""
    task = said if isinstance(said, facets.AirflowTaskFacet) else None
    if task is not None and task.task_instance.log_url:
        return task.task_instance.log_url
    base = reading.namespace.rstrip("/")
    if not base.startswith("http"):
        return None
    dag, run = quote(said.dag.dag_id), quote(said.dag_run.run_id)
    engine: facets.ProcessingEngine | None = reading.run.get("processing_engine")
    if engine is not None and engine.version.partition(".")[0] not in _BEFORE_3:
        address = f"{base}/dags/{dag}/runs/{run}"
        return address if task is None else f"{address}/tasks/{quote(task.task.task_id)}"
    if task is None:
        return f"{base}/dags/{dag}/grid?dag_run_id={run}"
    index = -1 if task.task_instance.map_index is None else task.task_instance.map_index
    return f"{base}/dags/{dag}/grid?tab=logs&dag_run_id={run}&task_id={quote(task.task.task_id)}&map_index={index}"
