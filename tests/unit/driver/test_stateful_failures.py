"""What a failed streaming query says, and the error that users get."""

from pathlib import Path

import pytest

from penstock.driver.stateful_failures import explained
from penstock.errors import CheckpointLost, Discontinuity, EnvironmentNotReady, PenstockError, PipelineHalted

JOB = "An error occurred while calling o141.getResult.\n: org.apache.spark.SparkException: Exception thrown: \n\tat x\n"


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        (
            "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE\n== SQL ==\nx",
            PipelineHalted,
            "[DIVIDE_BY_ZERO] Division by zero",
        ),
        (
            (
                "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
                '  File "ranking.py", line 3\n    raise ValueError("13")\nValueError: 13\n\n=== Streaming Query ==='
            ),
            PipelineHalted,
            'failed: ValueError: 13 (ranking.py:3: raise ValueError("13")).',
        ),
        (
            f"{JOB}Caused by: a.B: outer\n\tat y\nCaused by: c.D: [INNER] reason\n\tat z",
            PipelineHalted,
            "[INNER] reason",
        ),
        (
            (
                f"{JOB}Caused by: org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] error\n"
                "Caused by: java.io.FileNotFoundException: File file:/c/spark/state/0/0/2.zip does not exist"
            ),
            CheckpointLost,
            "2.zip does not exist",
        ),
        ("Failed to read log file file:/c/spark/commits/1. Incomplete log file", CheckpointLost, "rebuild p"),
        ("[STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY] Cannot restart", CheckpointLost, "rebuild p"),
        (f"{JOB}Caused by: a.B: [FAILED_READ_FILE.FILE_NOT_EXIST] no file\n", Discontinuity, "files of the table"),
        ("[DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE] lagging", Discontinuity, "files of the table"),
        ("[DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE] other", Discontinuity, "replaced by another one"),
        ("[DELTA_SOURCE_TABLE_IGNORE_CHANGES] Detected a data update", Discontinuity, "replaced or deleted"),
        (f"{JOB}Caused by: java.io.IOException: No space left on device", EnvironmentNotReady, "a disk is full"),
        ("", PipelineHalted, "failed"),
    ],
)
def test_a_failed_query_is_an_error_of_ours_with_the_innermost_cause(
    text: str, kind: type[PenstockError], told: str
) -> None:
    error = explained(RuntimeError(text), "p", Path("/c/spark"))

    assert kind is type(error)
    assert told in str(error)
