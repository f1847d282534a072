"""Tasks in one worker: each offset range is run by its number, and what stands in front is read to its end."""

from collections.abc import Iterator

import pyarrow as pa

from penstock.record.manifest import COLUMN
from penstock.worker.tasks import Chain


class Report:
    """Says which offset range it was given."""

    def __call__(self, batches: Iterator[pa.RecordBatch], index: int) -> Iterator[pa.RecordBatch]:
        """Yield one row."""
        assert [] == list(batches)
        yield pa.RecordBatch.from_pydict({COLUMN: [f"range {index}"]})


def test_a_task_without_rows_from_the_jvm_runs_the_offset_range_of_its_number_and_leaves_nothing_unread() -> None:
    numbers = iter([3])

    found = list(Chain([Report()]).manifests(numbers))

    assert ["range 3"] == found
    assert [] == list(numbers), "Spark takes no worker again that has not read its input to the end"
