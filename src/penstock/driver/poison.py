"""Finding the records that a job fails on, so that they become dead letters and the rest goes on.

Where a failure cannot be caught at the record itself, in Spark's SQL or in a worker that dies, the steps are run again
over halves of the offset range until the failing records are found; if the steps accept all of them, so is the staging.
A record is poison only if it fails twice by itself. An outage meanwhile is raised, and no record is rejected.
"""

from pathlib import Path

from penstock.delivery.dead_envelope import NOT_READ
from penstock.driver.failures import cause_of, in_words, job_errors, record_error_of
from penstock.driver.spark_job import SparkJob
from penstock.errors import BatchAborted, PipelineHalted
from penstock.record.decoded import RecordError, record_error
from penstock.steps.code_line import in_brackets
from penstock.steps.user_code import HANDLERS, noted
from penstock.worker.tasks import DrainTask, ReadTask, WriteTask

_MOST_POISON = 100
_DRAIN = DrainTask()


class PoisonSearch:
    """One search, over the offset ranges of one batch."""

    def __init__(self, job: SparkJob, read: ReadTask, write: WriteTask, notes: Path) -> None:
        self._job = job
        self._read = read
        self._write = write
        self._notes = notes

    def poison_records(self, failure: Exception) -> list[tuple[int, int, RecordError]]:
        """Return offset range, offset and error of every poison record; raise if no record is the cause."""
        suspects = self._noted()  # before anything else runs, for every run keeps notes
        start = self._read.offset_ranges[0].start
        without_records = self._fails(0, start, start, _DRAIN)
        if without_records is not None:
            raise PipelineHalted(
                f"a step fails without any record: {in_words(without_records)}",
                safe="Nothing of this batch was written",
                fix="Fix the step",
            )
        found = [each for index, offset in suspects for each in self._alone(index, offset, _DRAIN)]
        found = found or self._searched(_DRAIN) or self._searched(self._write)
        if not found:
            raise BatchAborted(f"a job failed, and no record alone makes it fail: {in_words(failure)}")
        return found

    def _noted(self) -> list[tuple[int, int]]:
        """Return the records that were being processed when a worker died."""
        notes = [
            (index, noted(self._notes / f"{index}{whose}"))
            for index in range(len(self._read.offset_ranges))
            for whose in ("", HANDLERS)
        ]
        return [
            (index, offset)
            for index, offset in notes
            if offset is not None
            and self._read.offset_ranges[index].start <= offset < self._read.offset_ranges[index].end
        ]

    def _searched(self, ending: DrainTask | WriteTask) -> list[tuple[int, int, RecordError]]:
        found: list[tuple[int, int, RecordError]] = []
        waiting = [(index, each.start, each.end) for index, each in enumerate(self._read.offset_ranges)]
        while waiting:
            index, start, end = waiting.pop()
            if end - start == 1:
                found += self._alone(index, start, ending)
            elif self._fails(index, start, end, ending) is not None:
                middle = (start + end) // 2
                waiting += [(index, middle, end), (index, start, middle)]
            if len(found) > _MOST_POISON:
                raise PipelineHalted(
                    f"a step fails on more than {_MOST_POISON} records of a batch; the first:"
                    f" {found[0][2]['message']}{in_brackets(found[0][2].get('line'))}",
                    safe="Nothing of this batch was written",
                    fix="Fix the step; that many failures are rarely the records' fault",
                )
        return found

    def _alone(self, index: int, offset: int, ending: DrainTask | WriteTask) -> list[tuple[int, int, RecordError]]:
        """Try one record twice."""
        first = self._fails(index, offset, offset + 1, ending)
        again = self._fails(index, offset, offset + 1, ending) if first is not None else None
        if again is None:
            return []
        problem = record_error_of(again)
        if ending is self._write:
            problem = {**problem, "stage": "sink"}
        elif self._unreadable(index, offset):
            problem = record_error(
                NOT_READ, f"reading this record fails: {problem['message']}", line=problem.get("line")
            )
        return [(index, offset, problem)]

    def _unreadable(self, index: int, offset: int) -> bool:
        """Return whether a record fails before any step has it."""
        try:
            self._job.read_alone(self._read.on(index, offset, offset + 1), _DRAIN)
        except job_errors() as error:
            cause = cause_of(error)
            if cause is not None:
                raise cause from None
            return True
        return False

    def _fails(self, index: int, start: int, end: int, ending: DrainTask | WriteTask) -> Exception | None:
        try:
            self._job.manifests(self._read.on(index, start, end), ending.on(index, start, end))
        except job_errors() as error:
            cause = cause_of(error)
            if cause is not None:
                raise cause from None
            return error
        return None
