"""Spark: an application is a job and its run; what it executes are operations of that run."""

import re
from functools import lru_cache

from penstock.lineage.extract import facets
from penstock.lineage.extract.producer import Enclosing, OperationDetails, Producer, Reading, RunDetails, of_parent
from penstock.lineage.facts import WriteKind

_PARTITIONS = re.compile(r"(?<=.)/[^/=]+=.*", re.DOTALL)
_REMEMBERED = 2_000
_COMMANDS = (
    ("merge_into", WriteKind.MERGE),
    ("delete_from", WriteKind.DELETE),
    ("delete_command", WriteKind.DELETE),
    ("update_table", WriteKind.UPDATE),
    ("update_command", WriteKind.UPDATE),
    ("truncate_table", WriteKind.TRUNCATE),
    ("drop_table", WriteKind.DROP),
    ("rename_table", WriteKind.RENAME),
    ("alter_table", WriteKind.ALTER),
    ("replace_table", WriteKind.OVERWRITE),
    ("overwrite_", WriteKind.OVERWRITE),
    ("append_data", WriteKind.APPEND),
    ("create_table", WriteKind.CREATE),
    ("create_data_source_table", WriteKind.CREATE),
    ("create_hive_table", WriteKind.CREATE),
)


class Spark(Producer):
    """Spark's listener."""

    prefers_tables = True
    facets_of_run = frozenset({"spark_properties", "environment-properties"})

    def is_operation(self, reading: Reading) -> bool:
        """Return whether it is anything but the application itself."""
        return reading.job_type != "APPLICATION"

    def enclosing(self, reading: Reading) -> Enclosing | None:
        """Return the application."""
        return None if reading.parent is None else of_parent(reading.parent, "SPARK_APPLICATION")

    def run_details(self, reading: Reading) -> RunDetails:
        """Return what is known of the application, which events of its jobs say, too."""
        said: facets.SparkApplication | None = reading.run.get("spark_applicationDetails")
        if said is None:
            return {}
        return {
            "external_id": said.application_id,
            "started_by": said.user_name,
            "persistent_log_url": _first(said.history_url),
            "running_log_url": _first(said.proxy_url) or _first(said.ui_web_url),
        }

    def operation_details(self, reading: Reading) -> OperationDetails:
        """Return what is known of the job; its name has the application's in front, and may have many lines."""
        name = " ".join(reading.job_name.split())
        if reading.parent is not None:
            name = name.removeprefix(f"{reading.parent.job.name}.")
        said: facets.SparkJob | None = reading.run.get("spark_jobDetails")
        if said is None:
            return {"name": name}
        return {
            "name": name,
            "position": said.job_id,
            "group": said.job_group,
            "description": said.job_description,
        }

    def dataset_name(self, name: str) -> str:
        """Return the path without partitions: `/data/sales` for `/data/sales/day=2026-03-01/hour=5`."""
        return _PARTITIONS.sub("", name) if "=" in name and "/" in name else name

    def writes(self, reading: Reading) -> int:
        """Return what the name of the executed command says."""
        return _writes(reading.job_name)


@lru_cache(_REMEMBERED)
def _writes(job_name: str) -> int:
    for command, kind in _COMMANDS:
        if command in job_name:
            return int(kind)
    return 0


def _first(addresses: str | None) -> str | None:
    return addresses.partition(",")[0] or None if addresses else None
