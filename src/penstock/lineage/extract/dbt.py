"""dbt: an invocation is a job and its run; models, snapshots and tests are operations of that run."""

import re

from penstock.lineage.extract import facets
from penstock.lineage.extract.producer import Enclosing, OperationDetails, Producer, Reading, RunDetails, of_parent
from penstock.lineage.facts import WriteKind

_NO_DATABASE = re.compile(r"(?:^|(?<=\.))None\.")


class Dbt(Producer):
    """dbt's wrapper."""

    def is_operation(self, reading: Reading) -> bool:
        """Return whether it is anything but the invocation itself."""
        return reading.job_type != "JOB"

    def enclosing(self, reading: Reading) -> Enclosing | None:
        """Return the invocation."""
        return None if reading.parent is None else of_parent(reading.parent, "DBT_JOB")

    def run_details(self, reading: Reading) -> RunDetails:
        """Return the invocation's id."""
        said: facets.DbtRun | None = reading.run.get("dbt_run")
        return {} if said is None else {"external_id": said.invocation_id}

    def operation_details(self, reading: Reading) -> OperationDetails:
        """Return the model's name, and that it is a model."""
        return {"name": reading.job_name, "group": reading.job_type or None}

    def writes(self, reading: Reading) -> int:  # noqa: ARG002
        """Return that rows were added, which is what a model does unless its SQL says otherwise."""
        return int(WriteKind.APPEND)

    def dataset_name(self, name: str) -> str:
        """Return the name without Python's None for a database that there is not."""
        return _NO_DATABASE.sub("", name) if "None." in name else name
