"""Flink: a job is a job, and its run is its own operation, which may last for months."""

from penstock.lineage.extract import facets
from penstock.lineage.extract.producer import Enclosing, Producer, Reading, RunDetails
from penstock.lineage.facts import WriteKind


class Flink(Producer):
    """Flink's listener, of version 1 or 2."""

    def is_operation(self, reading: Reading) -> bool:
        """Return whether it is a job, or says nothing and has datasets."""
        return reading.job_type == "JOB" or bool(reading.event.inputs or reading.event.outputs)

    def enclosing(self, reading: Reading) -> Enclosing | None:  # noqa: ARG002
        """Return None: a job has a run of its own."""
        return None

    def run_details(self, reading: Reading) -> RunDetails:
        """Return the job's id, and where Flink shows it while it runs and after."""
        said: facets.FlinkJob | None = reading.run.get("flink_job")
        if said is None:
            return {}
        base = reading.namespace.rstrip("/")
        if not base.startswith("http"):
            return {"external_id": said.job_id}
        return {
            "external_id": said.job_id,
            "running_log_url": f"{base}/#/job/running/{said.job_id}",
            "persistent_log_url": f"{base}/#/job/completed/{said.job_id}",
        }

    def writes(self, reading: Reading) -> int:  # noqa: ARG002
        """Return that rows were added: what a streaming job writes is seldom anything else."""
        return int(WriteKind.APPEND)

    def is_symlink(self, identifier: facets.SymlinkIdentifier) -> bool:
        """Return False for a topic's name in Flink's own catalogue, which Flink 2 gives to every topic."""
        return not (identifier.type == "TABLE" and identifier.namespace.startswith("kafka://"))
