import stat
from pathlib import Path
from typing import Any

import pytest

from penstock.lineage import pipeline_file
from penstock.lineage.store.address import StoreAddress, default_path
from penstock.pipeline.load import load
from penstock.pipeline.spec import PipelineSpec
from penstock.sources.kafka import Kafka


def _written(home: Path, address: StoreAddress, **settings: Any) -> PipelineSpec:
    return load(pipeline_file.write(home, address, **{"topics": [], "pattern": None, "batch": {}, **settings}))


def test_the_pipeline_that_comes_with_penstock_is_a_right_one(tmp_path: Path) -> None:
    copied = tmp_path / "lineage.yaml"
    copied.write_bytes(pipeline_file.SHIPPED.read_bytes())
    spec = load(copied)

    assert ("lineage", ["lineage"]) == (spec.name, spec.sink_names)
    assert str(tmp_path / "lineage.db") == getattr(spec.sinks[0], "store")  # noqa: B009 - a model of another package


def test_what_is_not_said_is_as_it_is_shipped(tmp_path: Path) -> None:
    path = default_path(tmp_path)
    spec = _written(tmp_path, StoreAddress(store=str(path)))
    shipped = load(pipeline_file.SHIPPED)

    assert (shipped.source, shipped.batch) == (spec.source, spec.batch)
    assert 0o600 == stat.S_IMODE(path.with_name("lineage.yaml").stat().st_mode)


@pytest.mark.parametrize(
    ("said", "source"),
    [
        ({"topics": ["a", "b"]}, Kafka(topics=["a", "b"])),
        ({"pattern": r"input\..*"}, Kafka(pattern=r"input\..*")),
    ],
)
def test_topics_or_a_pattern_can_be_said(tmp_path: Path, said: dict[str, Any], source: Kafka) -> None:
    assert source == _written(tmp_path, StoreAddress(store="l.db"), **said).source


def test_sizes_and_waits_of_a_batch_can_be_said(tmp_path: Path) -> None:
    batch = {"max_events": 500, "max_bytes": "10MB", "max_wait": "2s"}
    made = _written(tmp_path, StoreAddress(store="l.db"), batch=batch).batch

    assert (500, 10_000_000, 2000) == (made.max_events, made.max_bytes, made.max_wait)


def test_the_file_names_the_password_and_does_not_hold_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINEAGE_PASSWORD", "hunter2")
    address = StoreAddress.model_validate(
        {"store": "postgresql://me@127.0.0.1/lineage", "password": "env:LINEAGE_PASSWORD", "partition_by": "day"}
    )
    sink = _written(tmp_path, address).sinks[0]

    assert dict(address) == {name: getattr(sink, name) for name in StoreAddress.model_fields}
    assert "hunter2" not in default_path(tmp_path).with_name("lineage.yaml").read_text()
