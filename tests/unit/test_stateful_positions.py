from pathlib import Path

import pyarrow as pa
import pytest

from penstock.engine.home import Home
from penstock.engine.stateful import StatefulRunner
from penstock.errors import PositionLost
from penstock.pipeline.spec import PipelineSpec
from penstock.sinks.merging import merging_sink

ROWS = pa.table({"k": [1]})


def runner(sink: dict[str, object], folder: Path) -> StatefulRunner:
    source = {"type": "delta", "path": str(folder / "source")}
    spec = PipelineSpec.model_validate({"name": "p", "source": source, "sinks": [sink]})
    return StatefulRunner(spec, Home(folder), lambda: pytest.fail("Spark is not needed"), folder)


@pytest.mark.parametrize("name", ["console", "screen"])
def test_a_terminal_has_no_position_to_lose_whatever_it_is_called(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runner({"type": "console", "name": name}, tmp_path)

    run._merge(merging_sink(run.spec.sinks[0], name, "p"), ROWS, 3)

    assert '{"k":1}\n' == capsys.readouterr().out


@pytest.mark.parametrize("name", ["delta", "console"])
def test_a_table_without_its_position_is_noticed_whatever_it_is_called(name: str, tmp_path: Path) -> None:
    run = runner({"type": "delta", "name": name, "path": str(tmp_path / "table"), "key": ["k"]}, tmp_path)

    with pytest.raises(PositionLost):
        run._merge(merging_sink(run.spec.sinks[0], name, "p"), ROWS, 3)
