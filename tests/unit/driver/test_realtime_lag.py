"""The lag in real time: what the topics hold beyond what Spark has written down."""

from pathlib import Path

import pytest

from penstock.driver.paths import PipelinePaths
from penstock.driver.realtime import RealtimeRunner
from penstock.kafka.connection import Connection
from penstock.pipeline.spec import PipelineSpec
from penstock.record.available_range import AvailableRange
from penstock.record.positions import SourcePartition


def test_the_lag_counts_what_is_behind_the_position_and_all_of_a_partition_that_is_not_read_yet(tmp_path: Path) -> None:
    spec = PipelineSpec.model_validate(
        {
            "name": "p",
            "source": {"type": "kafka", "topics": ["t"]},
            "decode": {"type": "raw"},
            "sinks": [{"type": "kafka", "topic": "out"}],
            "speed": "realtime",
        }
    )
    runner = RealtimeRunner(
        spec, Connection(bootstrap_servers="x:1"), PipelinePaths(tmp_path), lambda: pytest.fail("no Spark")
    )
    runner.available = [
        AvailableRange(SourcePartition("t", "id", 0), 0, 100),
        AvailableRange(SourcePartition("t", "id", 1), 10, 35),
    ]

    progress = runner._progress(
        {
            "batchId": 3,
            "numInputRows": 7,
            "durationMs": {"triggerExecution": 5000},
            "sources": [{"endOffset": '{"t":{"0":90}}'}],
        }
    )

    assert 10 + 25 == progress.lag
