"""What a failed Spark job means: an outage, a mistake in the file, or perhaps one record's fault."""

import re
from typing import Any

from penstock import errors
from penstock.errors import BatchAborted, EnvironmentNotReady, PenstockError
from penstock.record.decoded import RecordError, record_error

_OURS = re.compile(r"penstock\.errors\.(\w+): (.*)")
_CRASHED = "Python worker exited unexpectedly"
_LOST = (
    "SparkContext was shut down",
    "SparkContext has been shutdown",
    "cancelled because SparkContext",
    "ExecutorLostFailure",
)


def job_errors() -> tuple[type[Exception], ...]:
    """Return the errors of Spark and of the way to it; asked for when something fails, PySpark loads no sooner."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return (PySparkException, Py4JError)


def cause_of(error: Exception) -> PenstockError | None:
    """Return the error that a task raised for a reason of its own; None if a record may be to blame."""
    text = str(error)
    match = _OURS.search(text)
    kind = getattr(errors, match[1], None) if match else None
    if match and isinstance(kind, type) and issubclass(kind, PenstockError):
        return kind(match[2].strip())
    if "No space left on device" in text:
        return EnvironmentNotReady(
            "a disk is full", safe="Nothing of this batch was written", fix="Make room; then start again"
        )
    if _is_cut_off(error) or any(sign in text for sign in _LOST):
        return BatchAborted("Spark stopped while a batch was running", safe="Nothing of this batch was written")
    return None


def _is_cut_off(error: Exception) -> bool:
    from py4j.protocol import Py4JNetworkError

    return isinstance(error, Py4JNetworkError)


def record_error_of(error: Any) -> RecordError:
    """Describe the failure of one record."""
    text = str(error)
    if _CRASHED in text:
        return record_error("WorkerDied", "the Python worker died twice on this record alone", stage="step")
    condition = error.getCondition() if hasattr(error, "getCondition") else None
    first = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    return record_error(condition or type(error).__name__, first, stage="sql")
