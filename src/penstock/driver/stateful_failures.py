"""What ended the streaming query of a stateful pipeline: its state, the table that it reads, or a row of it."""

from pathlib import Path

from penstock.delivery.checkpoint import lost
from penstock.driver.failures import cause_of, innermost
from penstock.errors import Discontinuity, PenstockError, PipelineHalted
from penstock.steps.code_line import code_line_in, in_brackets

_REASON_CHARS = 500
_STATE_GONE = (
    "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
    "CANNOT_LOAD_STATE_STORE",
    "STATE_STORE_CHECKPOINT",
    "Failed to read log file",
    "Incomplete log file",
)
_ROWS_REPLACED = ("_IGNORE_CHANGES", "_IGNORE_DELETES")
_TABLE_REPLACED = ("DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",)
_FILES_GONE = ("DELTA_LOG_FILE_NOT_FOUND", "DELTA_FILE_NOT_FOUND", "FAILED_READ_FILE", "FileNotFoundException")


def explained(error: Exception, pipeline: str, checkpoint: Path) -> PenstockError:
    """Return the error for users, with the command that goes on."""
    if found := cause_of(error):
        return found
    text = str(error)
    reason = innermost(text)[:_REASON_CHARS] + in_brackets(code_line_in(text))
    if any(sign in text for sign in _STATE_GONE):
        return lost(pipeline, f"parts of Spark's state in {checkpoint} are missing or damaged: {reason}")
    for signs, what in (
        (_ROWS_REPLACED, f"rows of the table that pipeline '{pipeline}' reads were replaced or deleted"),
        (_TABLE_REPLACED, f"the table that pipeline '{pipeline}' reads was replaced by another one"),
        (_FILES_GONE, f"files of the table that pipeline '{pipeline}' reads were deleted before it had read them"),
    ):
        if any(sign in text for sign in signs):
            return Discontinuity(
                what,
                safe="What the sinks hold was computed from the rows before",
                fix=f"To compute everything again, run: penstock pipeline rebuild {pipeline}",
            )
    return PipelineHalted(
        f"pipeline '{pipeline}' failed: {reason}",
        safe="What the sinks hold is whole batches",
        fix=f"Fix the step or the data, and start it again. Read more with: penstock pipeline logs --spark {pipeline}",
    )
