"""What is named as a pipeline file and is none."""

from pathlib import Path

import pytest

from penstock.errors import BadInput, NotFound
from penstock.pipeline.load import load


@pytest.mark.parametrize("name", ["none.yaml", "none.py"])
def test_a_file_that_is_not_there_is_not_found(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotFound, match=r"there is no pipeline file .*none\.(yaml|py)"):
        load(tmp_path / name)


def test_records_that_are_taken_for_a_pipeline_file_are_sent_by_another_command(tmp_path: Path) -> None:
    records = tmp_path / "orders.jsonl"
    records.write_text('{"id": 1}\n{"id": 2}\n')

    with pytest.raises(
        BadInput, match=r"holds records, and .*\. Send them with: penstock produce TOPIC .*orders\.jsonl"
    ):
        load(records)
