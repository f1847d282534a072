"""What a failed Spark job means: an outage, a mistake in the file, or possibly a bad record."""

import re
from typing import Any

from sqlglot import exp

from penstock import errors
from penstock.errors import BatchAborted, EnvironmentNotReady, PenstockError
from penstock.record.decoded import RecordError, record_error
from penstock.steps.code_line import code_line_in, in_brackets
from penstock.wording import nearest, no_column

_OURS = re.compile(r"penstock\.errors\.(\w+): (.*)")
_TRACEBACK = "Traceback (most recent call last)"
_NO_COLUMN = re.compile(r"^\[UNRESOLVED_COLUMN[^\]]*\].* with name (`.+?`) cannot be resolved")
_NO_FUNCTION = re.compile(r"^\[UNRESOLVED_ROUTINE\] Cannot resolve routine `(.+?)` on")
_NO_SYNTAX = re.compile(r"^\[PARSE_SYNTAX_ERROR\] Syntax error at or near '?(.+?)'?[.:,]")
_SQL_STATE = re.compile(r"\.?\s*SQLSTATE: \w+.*$")
_CRASHED = "Python worker exited unexpectedly"
_CANCELLED = re.compile(r"^(?:: [\w.]+: )?\[SPARK_JOB_CANCELLED\]", re.MULTILINE)
"""How Spark reports a cancelled job, at the start of a line: elsewhere it may be a record's content."""
_LATE = re.compile(
    r"^(?:Caused by: |.*executor [\w.-]+\): )?org\.apache\.spark\.SparkException: Python worker failed", re.MULTILINE
)
_LOST = (
    "SparkContext was shut down",
    "SparkContext has been shutdown",
    "cancelled because SparkContext",
    "ExecutorLostFailure",
)


def job_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of Spark and of its gateway; PySpark is imported only when something has failed."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return (PySparkException, Py4JError)


def cause_of(error: Exception) -> PenstockError | None:
    """Return the error that a task raised for a reason other than a record; None if a record may be the reason."""
    text = str(error)
    match = _OURS.search(text)
    kind = getattr(errors, match[1], None) if match else None
    if match and isinstance(kind, type) and issubclass(kind, PenstockError):
        return kind(match[2].strip())
    if "No space left on device" in text:
        return EnvironmentNotReady(
            "a disk is full", safe="Nothing of this batch was written", fix="Make room; then start again"
        )
    if _LATE.search(text):  # Spark gives it ten seconds, which a busy machine may not
        return BatchAborted("a Python worker did not start in time", safe="Nothing of this batch was written")
    if _is_lost_connection(error) or any(sign in text for sign in _LOST):
        return BatchAborted("Spark stopped while a batch was running", safe="Nothing of this batch was written")
    if _CANCELLED.search(text):
        return BatchAborted("a job of Spark's was cancelled", safe="Nothing of this batch was written")
    return None


def _is_lost_connection(error: Exception) -> bool:
    from py4j.protocol import Py4JNetworkError

    return isinstance(error, Py4JNetworkError)


def record_error_of(error: Any) -> RecordError:
    """Describe the failure of one record."""
    text = str(error)
    if _CRASHED in text:
        return record_error("WorkerDied", "the Python worker died twice on this record alone", stage="step")
    if _TRACEBACK in text:
        name, _, message = innermost(text).partition(": ")
        return record_error(name.rpartition(".")[2], message or name, "step", code_line_in(text))
    condition = error.getCondition() if hasattr(error, "getCondition") else None
    first = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    return record_error(condition or type(error).__name__, first, stage="sql")


def in_words(error: Exception) -> str:
    """Describe a failed job in one line: the innermost cause, and the line of the user's code."""
    found = record_error_of(error)
    text = found["message"] if found["stage"] == "sql" else f"{found['error']}: {found['message']}"
    return text + in_brackets(found.get("line"))


def complaint_about_sql(error: Exception, columns: list[str]) -> str:
    """Return Spark's complaint about SQL in one line.

    Positions in our own text around the user's are left out, and so are proposals for a column, which include columns
    that are not the user's.
    """
    first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    if (match := _NO_COLUMN.search(first)) is not None:
        return no_column(match[1].replace("`", ""), columns)
    if (match := _NO_FUNCTION.search(first)) is not None:
        # Names of other databases are among them, so only what is all but the same is proposed.
        close = nearest(match[1].lower(), map(str.lower, exp.FUNCTION_BY_NAME), likeness=0.8)
        return f"there is no function '{match[1]}'" + (f"; there is '{close}'" if close else "")
    if (match := _NO_SYNTAX.search(first)) is not None:
        # A bracket is ours, behind each expression: those of the user were counted before.
        return (
            "an expression is incomplete"
            if match[1] in {")", "end of input"}
            else f"it is not SQL at or near '{match[1]}'"
        )
    return _SQL_STATE.sub("", first).strip().rstrip(";.")


def innermost(text: str) -> str:
    """Return the line that says what happened: the innermost cause of what Python and Java say."""
    lines = [line for line in text.splitlines() if line.strip()]
    tracebacks = [number for number, line in enumerate(lines) if _TRACEBACK in line]
    if tracebacks:
        return next((line for line in lines[tracebacks[-1] + 1 :] if not line[0].isspace()), lines[0])
    causes = [line.partition(": ")[2] for line in lines if line.startswith("Caused by: ")]
    return (causes or lines or [""])[-1 if causes else 0]
